/** The real wire of hand-made recordings (tests/web/make_fixture.py writes it). */

import { readFileSync } from "node:fs";
import { Graph } from "../src/graph";
import type { Reading } from "../src/scene";
import { Sites } from "../src/site";
import { real, type GraphWire, type HeadWire, type MaybeNumber, type PlaceWire } from "../src/wire";

export interface Fixture {
  head: HeadWire;
  graphs: Graph[];
  sites: Sites;
  reads: (Reading | null)[][];
  places: Map<number, PlaceWire>;
}

export function fixture(name: string): Fixture {
  const whole = JSON.parse(readFileSync(new URL(`./${name}.json`, import.meta.url), "utf8")) as {
    head: HeadWire;
    graphs: Record<string, GraphWire>;
    reads: Record<string, ([boolean | MaybeNumber, MaybeNumber, MaybeNumber][] | null)[]>;
  };
  const reads = Object.values(whole.reads).flat().map((step) =>
    (step ?? []).map(([value, left, right]) => ({
      value: typeof value === "boolean" ? value : real(value), left: real(left), right: real(right),
    })));
  return {
    head: whole.head, graphs: Object.values(whole.graphs).map((wire) => new Graph(wire)), sites: new Sites(whole.head), reads,
    places: new Map(whole.head.places.map((place) => [place.site, place])),
  };
}
