/**
 * One level of a layered layout: items in rows, every link leads down, crossings are reduced by barycentres, and the
 * places in a row come from least squares with a minimum distance (pooled neighbours), so labels never overlap.
 */

export interface Item {
  w: number;
  h: number;
  /** Rows: `top` and `bottom` items stand on the border of a group. */
  pin: "top" | "bottom" | null;
}

export interface Link {
  from: number;
  to: number;
  /** Where on the items it is fixed, counted from their left; null: in the middle. */
  fromX: number | null;
  toX: number | null;
  /** Leads against the order: drawn around the side, and no reason to stand lower. */
  back: boolean;
  /** Only says what stands lower; not drawn. */
  silent: boolean;
  /** Links of one item with the same trunk begin as one line. */
  trunk: string;
}

export interface Placed {
  x: Float64Array;
  y: Float64Array;
  w: number;
  h: number;
  /** Points of every link, in its order: x0, y0, x1, y1, ... */
  routes: number[][];
}

const GAP_X = 26;
const GAP_LINE = 14;
const GAP_Y = 36;
const LANE = 13;

interface Slot {
  item: number; // -1: a line that passes through
  w: number;
  row: number;
  x: number; // left
  up: [number, number, number][]; // slot above, where on it, where on this
  down: [number, number, number][];
}

export function layLevel(items: readonly Item[], links: readonly Link[]): Placed {
  const rows = rowsOf(items, links);
  const slots: Slot[] = items.map((item, k) => ({ item: k, w: item.w, row: rows[k]!, x: 0, up: [], down: [] }));
  const paths = pathsOf(items, links, slots);
  const table = orderRows(slots);
  coordinates(slots, table);
  return finish(items, links, slots, table, paths);
}

function rowsOf(items: readonly Item[], links: readonly Link[]): Int32Array {
  const count = items.length;
  const rows = new Int32Array(count);
  const forward = links.filter((link) => !link.back);
  const outgoing: Link[][] = items.map(() => []);
  const waiting = new Int32Array(count);
  for (const link of forward) {
    outgoing[link.from]!.push(link);
    waiting[link.to]!++;
  }
  const hasTop = items.some((item) => item.pin === "top");
  const ready: number[] = [];
  for (let k = 0; k < count; k++) if (waiting[k] === 0) ready.push(k);
  for (let k = 0; k < count; k++) rows[k] = items[k]!.pin === "top" || !hasTop ? 0 : 1;
  for (let at = 0; at < ready.length; at++) {
    const from = ready[at]!;
    for (const link of outgoing[from]!) {
      rows[link.to] = Math.max(rows[link.to]!, rows[from]! + 1);
      if (--waiting[link.to]! === 0) ready.push(link.to);
    }
  }
  // What nothing leads to (inputs) stands just above its first use.
  const entered = new Uint8Array(count);
  for (const link of forward) entered[link.to] = 1;
  for (let k = 0; k < count; k++) {
    if (entered[k] === 1 || items[k]!.pin !== null || outgoing[k]!.length === 0) continue;
    rows[k] = Math.max(rows[k]!, Math.min(...outgoing[k]!.map((link) => rows[link.to]!)) - 1);
  }
  let last = 0;
  for (let k = 0; k < count; k++) if (items[k]!.pin !== "bottom") last = Math.max(last, rows[k]!);
  for (let k = 0; k < count; k++) if (items[k]!.pin === "bottom") rows[k] = last + 1;
  return rows;
}

/** For every link the slots it passes; long ones get a slot in each row, shared by links of one trunk. */
function pathsOf(items: readonly Item[], links: readonly Link[], slots: Slot[]): number[][] {
  const trunks = new Map<string, number>();
  return links.map((link) => {
    if (link.back || link.silent) return [];
    const path = [link.from];
    let last = link.from;
    for (let row = slots[link.from]!.row + 1; row < slots[link.to]!.row; row++) {
      const key = `${link.from}:${link.trunk}:${row}`;
      let slot = trunks.get(key);
      if (slot === undefined) {
        slot = slots.length;
        trunks.set(key, slot);
        slots.push({ item: -1, w: 2, row, x: 0, up: [], down: [] });
        join(slots, last, slot, last === link.from ? (link.fromX ?? items[last]!.w / 2) : 1, 1);
      }
      path.push(slot);
      last = slot;
    }
    join(
      slots, last, link.to,
      last === link.from ? (link.fromX ?? items[last]!.w / 2) : 1,
      link.toX ?? items[link.to]!.w / 2,
    );
    path.push(link.to);
    return path;
  });
}

function join(slots: Slot[], from: number, to: number, fromX: number, toX: number): void {
  slots[from]!.down.push([to, fromX, toX]);
  slots[to]!.up.push([from, toX, fromX]);
}

function orderRows(slots: readonly Slot[]): number[][] {
  const count = slots.reduce((most, slot) => Math.max(most, slot.row + 1), 0);
  let table: number[][] = Array.from({ length: count }, () => []);
  slots.forEach((slot, k) => table[slot.row]!.push(k));
  const place = new Float64Array(slots.length);
  const share = new Float64Array(slots.length); // how much of its row an item takes
  const number = (row: readonly number[]): void => row.forEach((slot, k) => {
    share[slot] = 1 / row.length;
    place[slot] = k / row.length;
  });
  table.forEach(number);
  let best = table.map((row) => [...row]);
  let fewest = crossings(slots, table);
  for (let sweep = 0; sweep < 8 && fewest > 0; sweep++) {
    const down = sweep % 2 === 0;
    const order = table.map((_, k) => k);
    for (const r of down ? order : order.reverse()) {
      const row = table[r]!;
      const wanted = new Map<number, number>();
      for (const slot of row) {
        const near = down ? slots[slot]!.up : slots[slot]!.down;
        wanted.set(slot, near.length === 0 ? place[slot]! + share[slot]! / 2 : near.reduce((sum, [other, , there]) => sum + place[other]! + share[other]! * part(slots[other]!, there), 0) / near.length);
      }
      row.sort((a, b) => wanted.get(a)! - wanted.get(b)! || place[a]! - place[b]!);
      number(row);
    }
    const now = crossings(slots, table);
    if (now < fewest) {
      fewest = now;
      best = table.map((row) => [...row]);
    }
  }
  table = best;
  return table;
}

const part = (slot: Slot, x: number): number => (slot.w > 0 ? Math.min(Math.max(x / slot.w, 0), 0.999) : 0.5);

function crossings(slots: readonly Slot[], table: readonly (readonly number[])[]): number {
  const place = new Float64Array(slots.length);
  for (const row of table) row.forEach((slot, k) => (place[slot] = k));
  let found = 0;
  for (const row of table) {
    const ends: number[] = [];
    for (const slot of row) {
      // Lines of one item leave it in the order of where they begin on it; those of one place in the best order.
      const next = slots[slot]!.down.map(([other, here, there]) => [here, place[other]! + part(slots[other]!, there)] as const);
      next.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      ends.push(...next.map(([, end]) => end));
    }
    if (ends.length > 600) return 0; // too many to count: keep the order of the program
    for (let i = 0; i < ends.length; i++) for (let k = i + 1; k < ends.length; k++) if (ends[k]! < ends[i]!) found++;
  }
  return found;
}

function coordinates(slots: readonly Slot[], table: readonly (readonly number[])[]): void {
  for (const row of table) {
    let x = 0;
    for (const slot of row) {
      slots[slot]!.x = x;
      x += slots[slot]!.w + GAP_X;
    }
    for (const slot of row) slots[slot]!.x -= (x - GAP_X) / 2;
  }
  for (let sweep = 0; sweep < 10; sweep++) {
    const down = sweep % 2 === 0;
    for (let k = 0; k < table.length; k++) settle(slots, table[down ? k : table.length - 1 - k]!, down, sweep >= 8);
  }
}

/** Moves a row as near as possible to what its slots are linked with, keeping order and distance. */
function settle(slots: readonly Slot[], row: readonly number[], down: boolean, both: boolean): void {
  const blocks: { sum: number; weight: number; count: number }[] = [];
  const offsets: number[] = [];
  let offset = 0;
  row.forEach((number, k) => {
    const slot = slots[number]!;
    if (k > 0) {
      const before = slots[row[k - 1]!]!;
      offset += before.w + (before.item < 0 || slot.item < 0 ? GAP_LINE : GAP_X);
    }
    offsets.push(offset);
    const near = both ? [...slot.up, ...slot.down] : down ? slot.up : slot.down;
    let sum = 0;
    let weight = 0;
    for (const [other, here, there] of near) {
      const strength = slot.item < 0 && slots[other]!.item < 0 ? 6 : slot.item < 0 || slots[other]!.item < 0 ? 2 : 1;
      sum += strength * (slots[other]!.x + there - here);
      weight += strength;
    }
    if (weight === 0) {
      sum = slot.x * 0.05;
      weight = 0.05;
    }
    blocks.push({ sum: sum - weight * offset, weight, count: 1 });
    while (blocks.length > 1) {
      const last = blocks[blocks.length - 1]!;
      const prior = blocks[blocks.length - 2]!;
      if (prior.sum / prior.weight <= last.sum / last.weight) break;
      blocks.pop();
      prior.sum += last.sum;
      prior.weight += last.weight;
      prior.count += last.count;
    }
  });
  let at = 0;
  for (const block of blocks) {
    for (let k = 0; k < block.count; k++, at++) slots[row[at]!]!.x = block.sum / block.weight + offsets[at]!;
  }
}

function finish(
  items: readonly Item[], links: readonly Link[], slots: readonly Slot[], table: readonly (readonly number[])[],
  paths: readonly (readonly number[])[],
): Placed {
  const back = links.filter((link) => link.back && !link.silent);
  const lanes = back.length === 0 ? 0 : LANE * Math.min(back.length, 8) + 8;
  let low = Infinity;
  let high = -Infinity;
  for (const slot of slots) {
    low = Math.min(low, slot.x);
    high = Math.max(high, slot.x + slot.w);
  }
  if (slots.length === 0) low = high = 0;
  for (const slot of slots) slot.x += lanes - low;
  const tops: number[] = [];
  const bottoms: number[] = [];
  let y = 0;
  for (const row of table) {
    const tall = row.reduce((most, slot) => Math.max(most, slots[slot]!.item < 0 ? 0 : items[slots[slot]!.item]!.h), 0);
    tops.push(y);
    bottoms.push(y + tall);
    const border = row.length > 0 && row.every((slot) => slots[slot]!.item < 0 || items[slots[slot]!.item]!.pin === "top");
    const next = table[tops.length] ?? [];
    const last = next.length > 0 && next.every((slot) => slots[slot]!.item >= 0 && items[slots[slot]!.item]!.pin === "bottom");
    y += tall + (border || last ? 14 : GAP_Y);
  }
  const placed: Placed = {
    x: Float64Array.from(items, (_, k) => slots[k]!.x),
    y: Float64Array.from(items, (_, k) => tops[slots[k]!.row]!),
    w: high - low + lanes,
    h: bottoms.length === 0 ? 0 : bottoms[bottoms.length - 1]!,
    routes: links.map(() => []),
  };
  const fixed = spread(items, links, slots, paths);
  paths.forEach((path, k) => {
    if (path.length === 0) return;
    const [fromX, toX] = fixed[k]!;
    const route = placed.routes[k]!;
    const first = slots[path[0]!]!;
    const x = first.x + fromX;
    const below = tops[first.row]! + items[first.item]!.h;
    route.push(x, below);
    if (bottoms[first.row]! > below) route.push(x, bottoms[first.row]!);
    for (const number of path.slice(1, -1)) {
      const slot = slots[number]!;
      route.push(slot.x + 1, tops[slot.row]!, slot.x + 1, bottoms[slot.row]!);
    }
    const end = slots[path[path.length - 1]!]!;
    route.push(end.x + toX, tops[end.row]!);
  });
  let lane = 0;
  links.forEach((link, k) => {
    if (!link.back || link.silent) return;
    const from = slots[link.from]!;
    const to = slots[link.to]!;
    const side = lanes - 8 - LANE * (lane++ % 8);
    const start = from.x + (link.fromX ?? from.w / 2);
    const end = to.x + (link.toX ?? to.w / 2);
    const below = tops[from.row]! + items[link.from]!.h;
    placed.routes[k]!.push(
      start, below, start, bottoms[from.row]! + 9, side, bottoms[from.row]! + 9, side, tops[to.row]! - 9,
      end, tops[to.row]! - 9, end, tops[to.row]!,
    );
  });
  return placed;
}

/** Where links without a fixed place begin and end: side by side, in the order in which they come. */
function spread(
  items: readonly Item[], links: readonly Link[], slots: readonly Slot[], paths: readonly (readonly number[])[],
): [number, number][] {
  const found: [number, number][] = links.map((link) => [
    link.fromX ?? items[link.from]!.w / 2, link.toX ?? items[link.to]!.w / 2,
  ]);
  const arriving = new Map<number, number[]>();
  const leaving = new Map<number, number[]>();
  links.forEach((link, k) => {
    if (paths[k]!.length === 0) return;
    if (link.toX === null) arriving.set(link.to, [...(arriving.get(link.to) ?? []), k]);
    if (link.fromX === null) leaving.set(link.from, [...(leaving.get(link.from) ?? []), k]);
  });
  const centre = (slot: number): number => slots[slot]!.x + slots[slot]!.w / 2;
  for (const [item, ks] of arriving) {
    ks.sort((a, b) => centre(paths[a]![paths[a]!.length - 2]!) - centre(paths[b]![paths[b]!.length - 2]!));
    ks.forEach((k, place) => (found[k]![1] = (items[item]!.w * (place + 1)) / (ks.length + 1)));
  }
  for (const [item, ks] of leaving) {
    const trunks = [...new Set(ks.map((k) => links[k]!.trunk))];
    const at = (trunk: string): number => centre(paths[ks.find((k) => links[k]!.trunk === trunk)!]![1]!);
    trunks.sort((a, b) => at(a) - at(b));
    for (const k of ks) found[k]![0] = (items[item]!.w * (trunks.indexOf(links[k]!.trunk) + 1)) / (trunks.length + 1);
  }
  return found;
}
