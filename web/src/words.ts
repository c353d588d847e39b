/** One spelling for numbers, as `graph/_notation.py` has it. */

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

export function grouped(count: number): string {
  return count.toLocaleString("en-US");
}

export function span(low: number, high: number): string {
  return low === high ? grouped(low) : `${grouped(low)}..${grouped(high)}`;
}

function short(value: number): string {
  return value > 0 && value < 9.95 && value !== Math.trunc(value) ? value.toFixed(1) : value.toFixed(0);
}

export function duration(ns: number): string {
  for (const [limit, unit, scale] of [[1e3, "ns", 1], [1e6, "us", 1e3], [1e9, "ms", 1e6], [99.95e9, "s", 1e9]] as const) {
    if (ns < limit * 0.9995) return `${short(ns / scale)} ${unit}`;
  }
  const seconds = Math.round(ns / 1e9);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(ns / 60e9);
  return `${grouped(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

export function size(bytes: number): string {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (bytes < 999.5) return `${unit === "B" ? Math.trunc(bytes) : short(bytes)} ${unit}`;
    bytes /= 1000;
  }
  return `${short(bytes)} TB`;
}

/** A number in four digits. */
export function number(value: number | boolean | null): string {
  if (value === null) return "?";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return grouped(value);
  const magnitude = Math.abs(value);
  if (magnitude >= 1e5 && magnitude < 1e9) return grouped(Math.round(value));
  if (magnitude < 1e-4 || magnitude >= 1e9) return trimmed(value.toExponential(3));
  return trimmed(value.toPrecision(4));
}

function trimmed(text: string): string {
  const [digits, exponent] = text.split("e");
  const plain = digits!.includes(".") ? digits!.replace(/\.?0+$/, "") : digits!;
  return exponent === undefined ? plain : `${plain}e${exponent}`;
}

export function shorten(text: string, width: number): string {
  const line = text.replace(/\s+/g, " ");
  return line.length <= width ? line : `${line.slice(0, Math.max(width - 1, 0))}…`;
}
