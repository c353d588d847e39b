/** Places in the source, by their number in the recording. */

import type { HeadWire, TestWire } from "./wire";

export interface Site {
  id: number;
  file: number;
  line: number;
  endLine: number;
  column: number;
  endColumn: number;
  function: string;
  expression: string;
  target: string;
  branches: readonly [number, number, number][];
  test: TestWire | null;
}

export class Sites {
  private readonly byId = new Map<number, Site>();

  constructor(readonly head: HeadWire) {
    const wire = head.sites;
    const text = (index: number): string => wire.text[index] ?? "";
    wire.id.forEach((id, k) => {
      this.byId.set(id, {
        id, file: wire.file[k]!, line: wire.line[k]!, endLine: wire.end_line[k]!, column: wire.column[k]!,
        endColumn: wire.end_column[k]!, function: text(wire.function[k]!), expression: text(wire.expression[k]!),
        target: text(wire.target[k]!), branches: wire.branches[k]!, test: wire.test[k]!,
      });
    });
  }

  get(id: number): Site | null {
    return this.byId.get(id) ?? null;
  }

  /** `rnn.py:14`; empty where the place is not known. */
  where(id: number): string {
    const site = this.get(id);
    return site === null ? "" : `${this.fileName(site.file)}:${site.line}`;
  }

  fileName(file: number): string {
    return this.head.files[file]?.name ?? "?";
  }
}
