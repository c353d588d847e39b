/** Asks the worker for a layout; where a browser has none for a page from disk, lays out here. */

import LayoutWorker from "./worker?worker&inline";
import { layOut, type FlatArrow, type FlatBox, type Layout } from "./nested";

const HERE = 400; // boxes up to which a worker costs more than it saves

let worker: Worker | null | undefined;
let tickets = 0;
const waiting = new Map<number, (layout: Layout) => void>();

function start(): Worker | null {
  if (worker !== undefined) return worker;
  try {
    worker = new LayoutWorker();
    worker.onmessage = (event: MessageEvent<{ ticket: number; layout: Layout }>) => {
      waiting.get(event.data.ticket)?.(event.data.layout);
      waiting.delete(event.data.ticket);
    };
    worker.onerror = () => (worker = null);
  } catch {
    worker = null;
  }
  return worker;
}

export async function layOutAside(boxes: FlatBox[], arrows: FlatArrow[]): Promise<Layout> {
  const helper = boxes.length > HERE ? start() : null;
  if (helper === null) return layOut(boxes, arrows);
  const ticket = ++tickets;
  return await new Promise<Layout>((resolve) => {
    const late = setTimeout(() => {
      if (waiting.delete(ticket)) resolve(layOut(boxes, arrows));
    }, 4000);
    waiting.set(ticket, (layout) => {
      clearTimeout(late);
      resolve(layout);
    });
    helper.postMessage({ ticket, boxes, arrows });
  });
}
