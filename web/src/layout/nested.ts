/** The layout of a whole scene: groups from the inside out, each a level of its own; arrows pass their borders at ports. */

import { layLevel, type Item, type Link } from "./level";

/** The boxes of a scene without what is not needed to place them, so that a worker gets little. */
export interface FlatBox {
  id: string;
  parent: string | null;
  w: number;
  h: number;
  open: boolean;
}

export interface FlatArrow {
  from: string;
  to: string;
  /** `arm` lines begin apart from one another; `order` lines are not drawn. */
  kind: string;
}

export interface Layout {
  /** x, y, w, h of every box, in order. */
  boxes: Float64Array;
  /** Points of every arrow, in order; empty where it is not drawn. */
  routes: number[][];
  w: number;
  h: number;
}

const PAD = 14;
const NONE: readonly number[] = [];

interface Level {
  children: number[];
  items: Item[];
  keys: Map<string, number>;
  links: Link[];
  linkOf: Map<string, number>;
  routes: number[][];
  portX: Map<string, number>;
  x: number;
  y: number;
}

export function layOut(boxes: readonly FlatBox[], arrows: readonly FlatArrow[]): Layout {
  const index = new Map(boxes.map((box, k) => [box.id, k]));
  const parents = boxes.map((box) => (box.parent === null ? -1 : index.get(box.parent)!));
  const levels = new Map<number, Level>();
  const level = (group: number): Level => {
    let found = levels.get(group);
    if (found === undefined) {
      found = {
        children: [], items: [], keys: new Map(), links: [], linkOf: new Map(), routes: [], portX: new Map(), x: 0, y: 0,
      };
      levels.set(group, found);
    }
    return found;
  };
  level(-1);
  boxes.forEach((box, k) => {
    level(parents[k]!).children.push(k);
    if (box.open) level(k);
  });

  const chain = (box: number): number[] => {
    const found = [box];
    for (let at = parents[box]!; at >= 0; at = parents[at]!) found.push(at);
    return found;
  };
  const legs: { level: number; key: string }[][] = arrows.map(() => []);
  const crossings = new Map<number, { arrow: number; port: string; out: boolean; child: number }[]>();
  const direct = new Map<number, { arrow: number; from: number; to: number; port: string }[]>();
  arrows.forEach((arrow, k) => {
    const from = index.get(arrow.from);
    const to = index.get(arrow.to);
    if (from === undefined || to === undefined) return;
    const up = chain(from);
    const down = chain(to);
    while (up.length > 1 && down.length > 1 && up[up.length - 1] === down[down.length - 1]) {
      up.pop();
      down.pop();
    }
    if (up[up.length - 1] === down[down.length - 1]) return; // from a group to its own content
    const port = arrow.kind === "arm" ? `${arrow.from}>${arrow.to}` : arrow.from;
    const put = <T>(map: Map<number, T[]>, key: number, item: T): void => {
      const known = map.get(key);
      if (known === undefined) map.set(key, [item]);
      else known.push(item);
    };
    for (let i = 0; i + 1 < up.length; i++) {
      put(crossings, up[i + 1]!, { arrow: k, port, out: true, child: up[i]! });
      legs[k]!.push({ level: up[i + 1]!, key: `${up[i]}>out:${port}` });
    }
    const first = up[up.length - 1]!;
    const second = down[down.length - 1]!;
    put(direct, parents[first]!, { arrow: k, from: first, to: second, port });
    legs[k]!.push({ level: parents[first]!, key: `${first}>${second}:${port}` });
    for (let i = down.length - 2; i >= 0; i--) {
      put(crossings, down[i + 1]!, { arrow: k, port, out: false, child: down[i]! });
      legs[k]!.push({ level: down[i + 1]!, key: `in:${port}>${down[i]}` });
    }
  });

  const sizes = boxes.map((box) => [box.w, box.h] as [number, number]);
  const place = (group: number): void => {
    const here = levels.get(group)!;
    const position = new Map(here.children.map((child, k) => [child, k]));
    here.items = here.children.map((child) => ({ w: sizes[child]![0], h: sizes[child]![1], pin: null }));
    const portOf = (child: number, side: string, port: string): number | null => {
      const inner = levels.get(child);
      return inner?.portX.get(`${side}:${port}`) ?? null;
    };
    const link = (key: string, made: Link): void => {
      if (here.linkOf.has(key)) return;
      here.linkOf.set(key, here.links.length);
      here.links.push(made);
    };
    const ports = new Map<string, number>();
    const portItem = (key: string, pin: "top" | "bottom"): number => {
      let at = ports.get(key);
      if (at === undefined) {
        at = here.items.length;
        ports.set(key, at);
        here.items.push({ w: 4, h: 0, pin });
      }
      return at;
    };
    for (const { arrow, port, out, child } of crossings.get(group) ?? []) {
      const silent = arrows[arrow]!.kind === "order";
      if (out) {
        const to = portItem(`out:${port}`, "bottom");
        link(`${child}>out:${port}`, {
          from: position.get(child)!, to, fromX: portOf(child, "out", port), toX: 2, back: false, silent, trunk: port,
        });
      } else {
        const from = portItem(`in:${port}`, "top");
        link(`in:${port}>${child}`, {
          from, to: position.get(child)!, fromX: 2, toX: portOf(child, "in", port), back: false, silent, trunk: port,
        });
      }
    }
    for (const { arrow, from, to, port } of direct.get(group) ?? []) {
      const start = position.get(from)!;
      const end = position.get(to)!;
      const kind = arrows[arrow]!.kind;
      link(`${from}>${to}:${port}`, {
        from: start, to: end, fromX: portOf(from, "out", port), toX: portOf(to, "in", port),
        back: start >= end, silent: kind === "order", trunk: port,
      });
    }
    const laid = layLevel(here.items, here.links);
    here.routes = laid.routes;
    const head = group < 0 ? 0 : boxes[group]!.h;
    const least = group < 0 ? 0 : boxes[group]!.w;
    const wide = Math.max(laid.w + 2 * PAD, least);
    const shift = (wide - laid.w) / 2;
    here.x = shift;
    here.y = head + (group < 0 ? 0 : 8);
    for (const [key, at] of ports) here.portX.set(key, shift + laid.x[at]! + 2);
    here.children.forEach((child, k) => {
      offset[2 * child] = shift + laid.x[k]!;
      offset[2 * child + 1] = here.y + laid.y[k]!;
    });
    const tall = here.y + laid.h + (group < 0 ? 0 : PAD);
    if (group >= 0) sizes[group] = [wide, tall];
    else total = [wide, tall];
  };
  const offset = new Float64Array(2 * boxes.length);
  let total: [number, number] = [0, 0];
  // Boxes stand behind their group, so from the last to the first every group is placed before the one around it.
  for (let k = boxes.length - 1; k >= 0; k--) if (boxes[k]!.open) place(k);
  place(-1);

  const found = new Float64Array(4 * boxes.length);
  boxes.forEach((_, k) => {
    const parent = parents[k]!;
    found[4 * k] = offset[2 * k]! + (parent < 0 ? 0 : found[4 * parent]!);
    found[4 * k + 1] = offset[2 * k + 1]! + (parent < 0 ? 0 : found[4 * parent + 1]!);
    found[4 * k + 2] = sizes[k]![0];
    found[4 * k + 3] = sizes[k]![1];
  });
  const routes = arrows.map((arrow, k) => {
    if (arrow.kind === "order") return [];
    const route: number[] = [];
    legs[k]!.forEach((leg) => {
      const inside = levels.get(leg.level)!;
      const points = inside.routes[inside.linkOf.get(leg.key) ?? -1] ?? NONE;
      const x = inside.x + (leg.level < 0 ? 0 : found[4 * leg.level]!);
      const y = inside.y + (leg.level < 0 ? 0 : found[4 * leg.level + 1]!);
      for (let i = 0; i < points.length; i += 2) route.push(points[i]! + x, points[i + 1]! + y);
    });
    return route;
  });
  return { boxes: found, routes, w: total[0], h: total[1] };
}
