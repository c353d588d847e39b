/** Small charts: sparklines as SVG, and the long strips of a run on a canvas. */

import { s } from "./dom";
import { number } from "./words";

export function sparkline(values: readonly (number | null)[], width: number, height: number, logarithmic: boolean): SVGElement {
  const numbers = values.map((value) => (value === null || !Number.isFinite(value) ? null : logarithmic ? Math.log10(Math.max(value, 1e-30)) : value));
  const known = numbers.filter((value): value is number => value !== null);
  const low = Math.min(...known, logarithmic ? Infinity : 0);
  const high = Math.max(...known, logarithmic ? -Infinity : 1);
  const x = (k: number): number => (values.length < 2 ? width / 2 : 2 + (k * (width - 4)) / (values.length - 1));
  const y = (value: number): number => height - 3 - ((value - low) / (high - low || 1)) * (height - 6);
  let path = "";
  let pen = false;
  numbers.forEach((value, k) => {
    if (value !== null) path += `${pen ? "L" : "M"}${x(k).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = value !== null;
  });
  const dots = numbers.length <= 40 ? numbers.flatMap((value, k) => (value === null ? [] : [s("circle", { cx: x(k), cy: y(value), r: 1.7 })])) : [];
  return s("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "values over the steps" }, s("path", { d: path }), ...dots);
}

/** Of at most 500 of the values. */
function median(row: Row, first: number, last: number): number {
  const found: number[] = [];
  const step = Math.max(1, Math.floor((last - first) / 500));
  for (let k = first; k < last; k += step) {
    const value = row.value!(k);
    if (value !== null && Number.isFinite(value)) found.push(value);
  }
  found.sort((a, b) => a - b);
  return found[Math.floor(found.length / 2)] ?? 0;
}

const NAME = 17; // height of the line with the name of a row

export interface Row {
  name: string;
  height: number;
  /** Either colours of cells (the strip) or a line. */
  cell?: (step: number) => { colour: string; letter: string };
  value?: (step: number) => number | null;
  words: (step: number) => string;
}

/** Rows over the steps, zoomed and moved together; draws what is in sight only. */
export class Strips {
  readonly canvas = document.createElement("canvas");
  private from = 0;
  private to: number;
  private pending = false;
  private cursor = 0;

  constructor(private readonly steps: number, private readonly rows: readonly Row[], private readonly choose: (step: number) => void, private readonly unit = "step") {
    this.to = Math.max(steps, 1);
    this.canvas.className = "strips";
    this.canvas.style.height = `${this.tall()}px`;
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  private tall(): number {
    return this.rows.reduce((sum, row) => sum + row.height + 20, 18);
  }

  set step(step: number) {
    this.cursor = step;
    const width = this.to - this.from;
    if (step < this.from || step >= this.to) this.move(step - this.from - width / 2);
    this.draw();
  }

  /** The steps in sight. */
  get range(): [number, number] {
    return [this.from, this.to];
  }

  show(from: number, to: number): void {
    const width = Math.min(Math.max(to - from, Math.min(8, this.steps)), this.steps);
    this.from = Math.min(Math.max(from, 0), this.steps - width);
    this.to = this.from + width;
    this.draw();
  }

  private move(by: number): void {
    this.show(this.from + by, this.to + by);
  }

  zoom(factor: number, at = (this.from + this.to) / 2): void {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  private wheel(event: WheelEvent): void {
    if (this.steps <= 8) return;
    event.preventDefault();
    const width = this.to - this.from;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.move(((event.deltaX || event.deltaY) * width) / Math.max(this.canvas.clientWidth, 1));
    } else {
      const at = this.from + ((event.clientX - this.canvas.getBoundingClientRect().left) / Math.max(this.canvas.clientWidth, 1)) * width;
      this.zoom(Math.exp(event.deltaY * 0.002), at);
    }
  }

  private listen(): void {
    let held: [number, number] | null = null;
    let far = false;
    this.canvas.addEventListener("pointerdown", (event) => {
      held = [event.clientX, this.from];
      far = false;
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (held === null) {
        this.canvas.title = this.rows.map((row) => `${row.name}: ${row.words(this.at(event))}`).join("\n");
        return;
      }
      if (Math.abs(event.clientX - held[0]) > 4) far = true;
      if (far) {
        const width = this.to - this.from;
        const from = held[1] - ((event.clientX - held[0]) * width) / Math.max(this.canvas.clientWidth, 1);
        this.show(from, from + width);
      }
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (held !== null && !far) this.choose(this.at(event));
      held = null;
    });
  }

  private at(event: PointerEvent): number {
    const share = (event.clientX - this.canvas.getBoundingClientRect().left) / Math.max(this.canvas.clientWidth, 1);
    return Math.min(Math.max(Math.floor(this.from + share * (this.to - this.from)), 0), this.steps - 1);
  }

  draw(): void {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.paint();
    });
  }

  private paint(): void {
    const { canvas } = this;
    const width = canvas.clientWidth;
    if (width === 0) return;
    const fine = devicePixelRatio || 1;
    canvas.width = Math.round(width * fine);
    canvas.height = Math.round(this.tall() * fine);
    const pen = canvas.getContext("2d")!;
    pen.scale(fine, fine);
    const style = getComputedStyle(canvas);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const each = width / (this.to - this.from);
    const x = (step: number): number => (step - this.from) * each;
    const first = Math.max(Math.floor(this.from), 0);
    const last = Math.min(Math.ceil(this.to), this.steps);
    let y = 0;
    for (const row of this.rows) {
      y += NAME;
      if (row.cell !== undefined) this.cells(pen, row, first, last, x, each, y);
      else {
        this.line(pen, row, first, last, x, each, y, colour("--accent"), colour("--line"));
        this.noNumbers(pen, row, first, last, x, each, y, colour("--cut"));
      }
      y += row.height + 3;
    }
    pen.strokeStyle = colour("--ink");
    pen.lineWidth = 1.5;
    const at = x(this.cursor);
    pen.strokeRect(at, 1, Math.max(each, 2), y - 2);
    // The words last, on a ground of their own: the frame around the chosen step may stand where they are.
    pen.font = "11px system-ui, sans-serif";
    pen.lineWidth = 4;
    pen.lineJoin = "round";
    pen.strokeStyle = colour("--card");
    let top = 0;
    for (const row of this.rows) {
      const words = this.steps > 0 ? row.words(this.cursor) : "";
      for (const [text, align, ink, from] of [[row.name, "left", "--soft", 0], [words, "right", "--ink", width]] as const) {
        pen.textAlign = align;
        pen.fillStyle = colour(ink);
        pen.strokeText(text, from, top + 12);
        pen.fillText(text, from, top + 12);
      }
      top += NAME + row.height + 3;
    }
    pen.fillStyle = colour("--soft");
    pen.textAlign = "left";
    pen.fillText(`${this.unit} ${first}`, 0, y + 12);
    pen.textAlign = "right";
    pen.fillText(`${Math.max(last - 1, 0)}`, width, y + 12);
  }

  private cells(pen: CanvasRenderingContext2D, row: Row, first: number, last: number, x: (step: number) => number, each: number, y: number): void {
    if (each >= 1) {
      for (let step = first; step < last; step++) {
        const { colour, letter } = row.cell!(step);
        pen.fillStyle = colour;
        pen.fillRect(x(step), y, Math.max(each - (each > 3 ? 0.75 : 0), 0.5), row.height);
        if (each >= 13) {
          pen.fillStyle = "#fff";
          pen.textAlign = "center";
          pen.fillText(letter, x(step) + each / 2, y + row.height / 2 + 4);
        }
      }
      return;
    }
    // More steps than pixels: each column of pixels is divided among a few of its steps.
    const columns = Math.ceil((last - first) * each);
    for (let column = 0; column < columns; column++) {
      const begin = first + column / each;
      for (let part = 0; part < 4; part++) {
        const step = Math.min(Math.floor(begin + part / (4 * each)), last - 1);
        pen.fillStyle = row.cell!(step).colour;
        pen.fillRect(column, y + (part * row.height) / 4, 1, row.height / 4);
      }
    }
  }

  /** A red bar, and its name where there is room, at every step whose number is infinite or none. */
  private noNumbers(pen: CanvasRenderingContext2D, row: Row, first: number, last: number, x: (step: number) => number, each: number, y: number, ink: string): void {
    pen.fillStyle = ink;
    pen.font = "10px system-ui, sans-serif";
    pen.textAlign = "left";
    let free = -Infinity; // where the last name ends
    for (let step = first; step < last; step++) {
      const value = row.value!(step);
      if (value === null || Number.isFinite(value)) continue;
      const at = x(step) + each / 2;
      pen.fillRect(at - 1, y + 3, 2, row.height - 3);
      const name = number(value);
      if (at < free) continue;
      pen.fillText(name, at + 3, y + 10);
      free = at + 8 + pen.measureText(name).width;
    }
  }

  private line(pen: CanvasRenderingContext2D, row: Row, first: number, last: number, x: (step: number) => number, each: number, y: number, ink: string, faint: string): void {
    let low = Infinity;
    let high = -Infinity;
    for (let step = first; step < last; step++) {
      const value = row.value!(step);
      if (value === null || !Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    pen.strokeStyle = faint;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(0, y + row.height + 0.5);
    pen.lineTo(pen.canvas.clientWidth, y + row.height + 0.5);
    pen.stroke();
    if (low > high) return;
    // A few steps far above the others (the first one warms up) would leave a flat line of the rest.
    const logarithmic = low > 0 && high > 50 * median(row, first, last);
    if (logarithmic) {
      pen.fillStyle = ink;
      pen.textAlign = "left";
      pen.fillText("log", pen.canvas.clientWidth - 20, y + 10);
    }
    const scale = logarithmic ? Math.log : (value: number): number => value;
    [low, high] = [scale(low), scale(high)];
    const tall = (value: number): number => y + row.height - 1 - ((scale(value) - low) / (high - low || 1)) * (row.height - 3);
    pen.strokeStyle = pen.fillStyle = ink;
    pen.lineWidth = 1.3;
    pen.beginPath();
    let down = false;
    let gap = 0;
    let alone: [number, number] | null = null; // a point to which no line leads yet
    const dot = (): void => {
      if (alone !== null) pen.fillRect(alone[0] - 1.5, alone[1] - 1.5, 3, 3);
      alone = null;
    };
    const stride = Math.max(1, Math.floor(0.5 / each));
    for (let step = first; step < last; step += stride) {
      // Within a stretch thinner than a pixel only the extremes matter.
      let [least, most] = [Infinity, -Infinity];
      for (let k = step; k < Math.min(step + stride, last); k++) {
        const value = row.value!(k);
        if (value === null || !Number.isFinite(value)) continue;
        least = Math.min(least, value);
        most = Math.max(most, value);
      }
      if (least > most) {
        gap++;
        down = down && each < 1 && gap < 12;
        if (!down) dot();
        continue;
      }
      gap = 0;
      const px = x(step) + each / 2;
      if (down) pen.lineTo(px, tall(least));
      else pen.moveTo(px, tall(least));
      alone = down || most !== least ? null : [px, tall(least)];
      if (most !== least) pen.lineTo(px, tall(most));
      else if (each > 12) pen.fillRect(px - 1.5, tall(least) - 1.5, 3, 3);
      down = true;
    }
    dot();
    pen.stroke();
  }
}
