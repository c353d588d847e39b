/** The picture as a file of its own: SVG with its colours written in, or PNG made from that. */

import { s } from "./dom";
import { Picture, tips } from "./picture";
import svgStyle from "./picture.css?inline";

export function standalone(picture: Picture): string {
  const { w, h } = picture.layout;
  const margin = 24;
  const whole = new Picture(picture.scene, picture.layout, { ...picture.lit, selected: null });
  whole.show(0, 0, w, h, true);
  const colours = getComputedStyle(document.documentElement);
  const style = svgStyle.replace(/var\((--[\w-]+)\)/g, (_, name: string) => colours.getPropertyValue(name).trim());
  const root = s(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", viewBox: `${-margin} ${-margin} ${w + 2 * margin} ${h + 2 * margin}`, width: Math.ceil(w + 2 * margin), height: Math.ceil(h + 2 * margin), class: "picture" },
    s("style", {}, style),
    tips(),
    s("rect", { x: -margin, y: -margin, width: w + 2 * margin, height: h + 2 * margin, fill: colours.getPropertyValue("--page").trim() }),
    whole.groups,
    whole.edges,
    whole.nodes,
  );
  return new XMLSerializer().serializeToString(root);
}

export function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The SVG as PNG, twice as fine as the screen, at most 8,000 pixels wide or high. */
export async function toPng(svg: string, w: number, h: number): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const scale = Math.min(2, 8000 / Math.max(w, h));
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(w * scale);
  canvas.height = Math.ceil(h * scale);
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return await new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob === null ? reject(new Error("the picture is too large for a PNG")) : resolve(blob)), "image/png"),
  );
}
