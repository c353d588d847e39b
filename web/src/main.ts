import "./style.css";
import "./picture.css";
import { App } from "./app";
import { h, replace } from "./dom";
import { Store, Told } from "./store";

async function begin(): Promise<void> {
  const root = document.getElementById("plait")!;
  try {
    const store = await Store.open();
    const app = new App(store, root);
    // For tests and for the console: the recording as this page has it.
    Object.assign(globalThis, { plaitPage: { store, app } });
  } catch (error) {
    const text = error instanceof Told ? error.message : `This page could not be opened: ${String(error)}`;
    replace(root, h("p", { class: "told", role: "alert" }, text));
  }
  document.body.dataset["ready"] = "1";
}

void begin();
