/** Moving about in a picture: drag, wheel, pinch, fit, and a small map of the whole. */

import { h, s } from "./dom";
import { tips, type Picture } from "./picture";

const LEAST = 0.05;
const MOST = 3;
const READABLE = 0.82; // the scale down to which the words can still be read,
const READABLE_IN_THE_HAND = 0.7; // and on a telephone, whose dots are finer and which is held nearer

export class Viewport {
  readonly svg = s("svg", { class: "picture", role: "group", "aria-label": "graph of the step", tabindex: 0 });
  readonly map = h("canvas", { class: "map", width: 180, height: 130, "aria-hidden": "true" });
  private readonly layer = s("g");
  private picture: Picture | null = null;
  private x = 0;
  private y = 0;
  scale = 1;
  private moved = false;

  constructor(private readonly onMove: () => void = () => undefined) {
    this.svg.append(tips(), this.layer);
    this.svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.drag();
    this.map.addEventListener("pointerdown", (event) => this.jump(event));
    new ResizeObserver(() => this.move()).observe(this.svg);
  }

  get wasDragged(): boolean {
    return this.moved;
  }

  show(picture: Picture, keep: boolean): void {
    this.picture = picture;
    this.layer.replaceChildren(picture.groups, picture.edges, picture.nodes);
    if (keep) this.move(true);
    else this.fit();
    this.drawMap();
  }

  /** All of it; but never so small that nothing can be read: then its upper end. */
  fit(all = false): void {
    if (this.picture === null) return;
    const { w, h: tall } = this.picture.layout;
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (width === 0) return;
    const margin = 28;
    const whole = Math.min((width - margin) / Math.max(w, 1), (height - margin) / Math.max(tall, 1));
    this.scale = Math.min(1.15, Math.max(whole, all ? LEAST : width < 600 ? READABLE_IN_THE_HAND : READABLE));
    this.x = (width / this.scale - w) / 2;
    this.y = tall * this.scale + margin <= height ? (height / this.scale - tall) / 2 : margin / 2 / this.scale;
    if (w * this.scale > width) this.x = this.beginning(width / this.scale, margin / 2 / this.scale);
    this.move(true);
  }

  /** Where a picture wider than the window begins: at its left, but with the box that stands highest well in sight. */
  private beginning(width: number, margin: number): number {
    const picture = this.picture!;
    let [middle, top] = [0, Infinity];
    picture.scene.boxes.forEach((box, k) => {
      const [x, y, w] = picture.rect(k);
      if (!box.open && y < top) [middle, top] = [x + w / 2, y];
    });
    return Math.max(Math.min(0.7 * width - middle, margin), width - picture.layout.w - margin);
  }

  zoom(factor: number, cx = this.svg.clientWidth / 2, cy = this.svg.clientHeight / 2): void {
    const next = Math.min(MOST, Math.max(LEAST, this.scale * factor));
    this.x += cx / next - cx / this.scale;
    this.y += cy / next - cy / this.scale;
    this.scale = next;
    this.move();
  }

  pan(dx: number, dy: number): void {
    this.x += dx / this.scale;
    this.y += dy / this.scale;
    this.move();
  }

  /** Brings a box into sight; in the middle if it was far off. */
  reveal(index: number): void {
    if (this.picture === null) return;
    const [bx, by, bw, bh] = this.picture.rect(index);
    const width = this.svg.clientWidth / this.scale;
    const height = this.svg.clientHeight / this.scale;
    const seen = bx + this.x >= 0 && by + this.y >= 0 && bx + bw + this.x <= width && by + Math.min(bh, 60) + this.y <= height;
    if (seen) return;
    this.x = width / 2 - (bx + bw / 2);
    this.y = height / 2 - (by + Math.min(bh, height) / 2);
    this.move();
  }

  move(force = false): void {
    this.layer.setAttribute("transform", `scale(${this.scale.toFixed(4)}) translate(${this.x.toFixed(2)} ${this.y.toFixed(2)})`);
    this.picture?.show(-this.x, -this.y, this.svg.clientWidth / this.scale, this.svg.clientHeight / this.scale, force);
    this.drawMap();
    this.onMove();
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const box = this.svg.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * 0.01), event.clientX - box.left, event.clientY - box.top);
    else if (event.shiftKey) this.pan(-event.deltaY, 0);
    else this.pan(-event.deltaX, -event.deltaY);
  }

  private drag(): void {
    const held = new Map<number, [number, number]>();
    this.svg.addEventListener("pointerdown", (event) => {
      held.set(event.pointerId, [event.clientX, event.clientY]);
      this.moved = false;
    });
    addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId);
      if (before === undefined) return;
      const [dx, dy] = [event.clientX - before[0], event.clientY - before[1]];
      if (!this.moved && Math.hypot(dx, dy) < 4) return;
      this.moved = true;
      if (held.size === 2) {
        const other = [...held].find(([id]) => id !== event.pointerId)![1];
        const far = (a: number, b: number): number => Math.hypot(a - other[0], b - other[1]) || 1;
        const box = this.svg.getBoundingClientRect();
        this.zoom(far(event.clientX, event.clientY) / far(before[0], before[1]), other[0] - box.left, other[1] - box.top);
      } else this.pan(dx, dy);
      held.set(event.pointerId, [event.clientX, event.clientY]);
    });
    for (const kind of ["pointerup", "pointercancel"] as const) addEventListener(kind, (event) => held.delete(event.pointerId));
  }

  private mapScale(): number {
    const { w, h: tall } = this.picture!.layout;
    return Math.min(this.map.width / Math.max(w, 1), this.map.height / Math.max(tall, 1));
  }

  private drawMap(): void {
    if (this.picture === null) return;
    const { w, h: tall } = this.picture.layout;
    const width = this.svg.clientWidth / this.scale;
    const height = this.svg.clientHeight / this.scale;
    this.map.hidden = w <= width * 1.02 && tall <= height * 1.02;
    const pen = this.map.getContext("2d");
    if (pen === null || this.map.hidden) return;
    const style = getComputedStyle(this.map);
    const scale = this.mapScale();
    pen.clearRect(0, 0, this.map.width, this.map.height);
    pen.lineWidth = 1;
    this.picture.scene.boxes.forEach((box, k) => {
      const [bx, by, bw, bh] = this.picture!.rect(k);
      pen.strokeStyle = pen.fillStyle = style.getPropertyValue(box.kind === "decision" ? "--decision" : box.kind === "loop" ? "--loop" : "--line");
      if (box.open) pen.strokeRect(bx * scale, by * scale, bw * scale, bh * scale);
      else pen.fillRect(bx * scale, by * scale, Math.max(bw * scale, 1), Math.max(bh * scale, 1));
    });
    pen.strokeStyle = style.getPropertyValue("--accent");
    pen.lineWidth = 2;
    pen.strokeRect(-this.x * scale, -this.y * scale, width * scale, height * scale);
  }

  private jump(event: PointerEvent): void {
    const box = this.map.getBoundingClientRect();
    const scale = this.mapScale() * (box.width / this.map.width);
    this.x = this.svg.clientWidth / this.scale / 2 - (event.clientX - box.left) / scale;
    this.y = this.svg.clientHeight / this.scale / 2 - (event.clientY - box.top) / scale;
    this.move();
  }
}
