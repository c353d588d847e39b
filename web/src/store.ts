/** The recording as the page has it: the head at once, graphs and reads when they are asked for. */

import { Graph } from "./graph";
import { Sites } from "./site";
import type { Reading } from "./scene";
import {
  real, unpack, WIRE, WIRE_VERSION, type BatchWire, type GraphWire, type GroupsWire, type HeadWire, type MaybeNumber, type PlaceWire, type StatsWire,
} from "./wire";

const KEPT = 24; // graphs that stay decoded

/** Something a reader can be told in one sentence. */
export class Told extends Error {}

type ReadWire = [boolean | MaybeNumber, MaybeNumber?, MaybeNumber?];

export class Store {
  readonly sites: Sites;
  readonly placeOfSite = new Map<number, PlaceWire>();
  readonly carried: Set<number> | null;
  private readonly graphs = new Map<number, Promise<Graph>>();
  private readonly reads = new Map<number, Promise<(ReadWire[] | null)[]>>();
  private measured: Promise<Record<string, StatsWire>> | null = null;

  private constructor(readonly head: HeadWire) {
    this.sites = new Sites(head);
    // One place of the source may be several instructions, and so several sites.
    const where = (id: number): string => {
      const site = this.sites.get(id);
      return site === null ? "" : `${site.file}:${site.line}:${site.column}:${site.expression}`;
    };
    const places = new Map(head.places.filter((place) => place.site >= 0).map((place) => [where(place.site), place]));
    for (const id of head.sites.id) {
      const place = places.get(where(id));
      if (place !== undefined) this.placeOfSite.set(id, place);
    }
    this.carried = head.graphs === null ? null : new Set(head.graphs);
  }

  static async open(): Promise<Store> {
    const text = embedded("head");
    if (text === null) throw new Told("This page holds no recording.");
    const head = await unpack<HeadWire>(text);
    if (head.format !== WIRE) throw new Told("This page holds something else than a recording of plait.");
    if (head.version > WIRE_VERSION) throw new Told("This page was written by a newer plait; it cannot be read here.");
    return new Store(head);
  }

  get steps(): number {
    return this.head.steps.graph.length;
  }

  graphOf(step: number): number {
    return this.head.steps.graph[step] ?? -1;
  }

  /** Times and elements are kept once a graph, of the step that built it first: ` in step 3`, or nothing for that step. */
  numbersFrom(step: number): string {
    const first = this.head.steps.graph.indexOf(this.graphOf(step));
    return first === step || first < 0 ? "" : ` in step ${first}`;
  }

  /** The graph of a step, decoded. */
  async stepGraph(step: number): Promise<Graph> {
    if (this.steps === 0) throw new Told("Nothing was computed with tensors while this was recorded: there is no graph to draw.");
    const number = this.graphOf(step);
    if (number < 0) throw new Told(`Step ${step} kept no graph: the limit of distinct graphs had been reached.`);
    return await this.graph(number);
  }

  async graph(number: number): Promise<Graph> {
    const known = this.graphs.get(number);
    if (known !== undefined) {
      this.graphs.delete(number); // to the end: the ones used last stay longest
      this.graphs.set(number, known);
      return await known;
    }
    const made = this.chunk(`g${number}`).then(async (text) => {
      if (text === null) {
        throw new Told(
          this.carried !== null && !this.carried.has(number)
            ? `This page does not carry graph ${number}; open the recording with plait view FILE --serve to see it, or name the step with --step.`
            : `Graph ${number} cannot be read from the recording.`,
        );
      }
      return new Graph(await unpack<GraphWire>(text));
    });
    this.graphs.set(number, made);
    made.catch(() => this.graphs.delete(number));
    if (this.graphs.size > KEPT) this.graphs.delete(this.graphs.keys().next().value!);
    return await made;
  }

  /** What the decisions of a step read, by the number of the decision. */
  async readings(step: number): Promise<(Reading | null)[]> {
    const per = this.head.reads_per_chunk;
    const number = Math.floor(step / per);
    let chunk = this.reads.get(number);
    if (chunk === undefined) {
      chunk = this.chunk(`r${number}`).then((text) => (text === null ? [] : unpack<(ReadWire[] | null)[]>(text)));
      this.reads.set(number, chunk);
    }
    const row = (await chunk)[step % per];
    return (row ?? []).map(([value, left, right]) => ({
      value: typeof value === "boolean" ? value : real(value), left: real(left), right: real(right),
    }));
  }

  /** The batched runs of a step, by the site that called them. */
  batchesOf(step: number): Map<number, BatchWire> {
    return new Map(this.head.batches.filter((each) => each.step === step).map((each) => [each.site, each]));
  }

  /** The groups of a batched run; null if they were not kept, or the page does not carry them. */
  async groups(batch: number): Promise<GroupsWire | null> {
    const text = await this.chunk(`b${batch}`);
    return text === null ? null : await unpack<GroupsWire>(text);
  }

  /** The measured gradients of a step; null if it was not measured. */
  async stats(step: number): Promise<StatsWire | null> {
    this.measured ??= this.chunk("stats").then((text) => (text === null ? {} : unpack<Record<string, StatsWire>>(text)));
    return (await this.measured)[String(step)] ?? null;
  }

  private async chunk(name: string): Promise<string | null> {
    const text = embedded(name);
    if (text !== null || !this.head.serve) return text;
    const answer = await fetch(`chunk/${name}`);
    return answer.ok ? await answer.text() : null;
  }
}

function embedded(name: string): string | null {
  return document.getElementById(`chunk-${name}`)?.textContent ?? null;
}
