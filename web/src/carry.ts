/** Another graph numbers its folds otherwise: finds what was open and chosen by its place in the program. */

import type { Graph } from "./graph";
import type { State } from "./state";

export function carried(state: State, from: Graph, to: Graph): State {
  const byKey = new Map(pathKeys(to).map((key, id) => [key, id]));
  const old = pathKeys(from);
  const moved = (fold: number): number | undefined => byKey.get(old[fold] ?? "");
  const open = state.open?.flatMap((id) => {
    const next = id.startsWith("f") ? moved(Number(id.slice(1))) : undefined;
    return next === undefined ? [] : [`f${next}`];
  }) ?? null;
  const rounds = new Map([...state.rounds].flatMap(([fold, round]) => {
    const next = moved(fold);
    return next === undefined ? [] : [[next, round] as [number, number]];
  }));
  const at = state.node !== null ? from.foldOfNode[state.node] : state.box?.startsWith("f") === true ? Number(state.box.slice(1)) : undefined;
  const next = at === undefined ? undefined : moved(at);
  return { ...state, open, rounds, node: null, box: next === undefined ? null : `f${next}` };
}

/** For every fold what it is and where it stands, the same in every graph of a program. */
function pathKeys(graph: Graph): string[] {
  const keys: string[] = [];
  const met = new Map<string, number>();
  for (const fold of graph.folds) {
    const key = `${fold.parent < 0 ? "" : keys[fold.parent]}/${fold.kind}:${fold.label}:${fold.site}`;
    const nth = met.get(key) ?? 0;
    met.set(key, nth + 1);
    keys.push(`${key}:${nth}`);
  }
  return keys;
}
