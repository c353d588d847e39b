/** The layout beside the page, so that it never freezes. */

import { layOut, type FlatArrow, type FlatBox } from "./nested";

addEventListener("message", (event: MessageEvent<{ ticket: number; boxes: FlatBox[]; arrows: FlatArrow[] }>) => {
  const { ticket, boxes, arrows } = event.data;
  postMessage({ ticket, layout: layOut(boxes, arrows) });
});
