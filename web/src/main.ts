// Opens what the page carries in itself, or what is dropped on it.

import { App } from "./app";
import { carried, read } from "./data/file";
import { element } from "./views/dom";
import { measure } from "./measure";

declare global {
  interface Window {
    /** For tests, and for a curious person at the console. */
    millpond?: {
      app: App;
      openedIn: number;
      measure: (frames: number) => Promise<object>;
      segments: (request: number, panel?: number) => object;
      blocks: (request: number, panel?: number) => object;
    };
  }
}

async function open(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const start = performance.now();
  try {
    const recording = await read(bytes);
    if (recording.panels.length === 0) throw new Error("there is no device in this file");
    const app = new App(recording);
    app.draw();
    const panel = (at = 0) => recording.panels[at];
    window.millpond = {
      app,
      openedIn: performance.now() - start,
      measure: (frames) => measure(app, frames),
      segments: (request, at) => panel(at).segmentsAt(panel(at).cursorAfter(request)),
      blocks: (request, at) => panel(at).inUseAt(panel(at).cursorAfter(request)),
    };
  } catch (error) {
    welcome(error instanceof Error ? error.message : String(error));
  }
}

/** A page without anything to show. */
function welcome(problem = ""): void {
  const input = element("input", { type: "file", accept: ".mpv" });
  input.addEventListener("change", () => {
    const file = input.files?.[0];
    if (file) void openFile(file);
  });
  const box = element("main", { className: "welcome" }, element("h1", { textContent: "Millpond" }));
  if (problem !== "") box.append(element("p", { className: "bad", textContent: problem }));
  box.append(element("p", { textContent: "Drop a file of columns here, or choose one:" }), element("p", {}, input), element("p", {}, element("code", { textContent: "millpond view FILE -o out.mpv" })));
  document.getElementById("app")?.replaceChildren(box);
}

async function openFile(file: File): Promise<void> {
  await open(new Uint8Array(await file.arrayBuffer()));
}

document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  const file = event.dataTransfer?.files[0];
  if (file) void openFile(file);
});

const bytes = carried();
if (bytes) void open(bytes);
else welcome();
