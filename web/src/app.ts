// The page: one run, or two side by side, at one moment.

import type { Recording } from "./data/file";
import { GROUPINGS, type Grouping } from "./data/layers";
import { css, layerColor, onSystemTheme, toggleTheme } from "./draw/theme";
import { bytes, count } from "./words";
import { Chart, type ChartHost, type Span } from "./views/chart";
import { Details } from "./views/details";
import { button, element, select } from "./views/dom";
import { Help } from "./views/help";
import { EventList } from "./views/list";
import { SegmentMap } from "./views/map";
import { Pane, titleOf } from "./views/pane";
import { verdictOf } from "./views/verdict";

interface Shown {
  pane: Pane;
  chart: Chart;
  map: SegmentMap;
  legend: HTMLElement;
  figures: HTMLElement;
}

export class App implements ChartHost {
  span: Span = [0, 1];
  most = 1;
  readonly counted: string;

  private readonly panes: (Pane | undefined)[];
  private shown: Shown[] = [];
  private main = 0;
  private beside: number | undefined;
  private grouping: Grouping;
  private waiting = false;

  private readonly root = element("div", { className: "app" });
  private readonly stage = element("main", { className: "stage" });
  private readonly verdicts = element("div", { className: "verdicts" });
  private readonly side: HTMLElement;
  private readonly details: Details;
  private readonly list: EventList;
  private readonly help = new Help();
  private readonly mainSelect: HTMLSelectElement | undefined;
  private readonly besideSelect: HTMLSelectElement | undefined;
  private readonly groupSelect: HTMLSelectElement;

  constructor(private readonly recording: Recording) {
    const { stacks, panels } = recording;
    this.counted = recording.counted;
    this.panes = panels.map(() => undefined);
    this.grouping = stacks.areKnown ? "own" : "size";
    const go = (pane: Pane, cursor: number) => this.seek(pane, cursor);
    this.details = new Details(stacks, recording.counted, go);
    this.list = new EventList(stacks, go);
    this.side = element("aside", { className: "side" }, this.details.root, this.list.root);
    this.side.setAttribute("aria-label", "the moment");

    const titles = panels.map((panel, at): [string, string] => [String(at), titleOf(panel)]);
    const tools = element("div", { className: "tools" });
    if (panels.length > 1) {
      const [mainLabel, mainSelect] = select("show", titles, (value) => this.show(Number(value), this.beside));
      const nothing: [string, string] = ["", "nothing"];
      const [besideLabel, besideSelect] = select("beside", [nothing, ...titles], (value) => this.show(this.main, value === "" ? undefined : Number(value)));
      this.mainSelect = mainSelect;
      this.besideSelect = besideSelect;
      tools.append(mainLabel, besideLabel);
    }
    const groupings = GROUPINGS.filter(([grouping]) => stacks.areKnown || grouping === "size" || grouping === "pool");
    const [groupLabel, groupSelect] = select("colour by", groupings, (value) => this.group(value));
    this.groupSelect = groupSelect;
    tools.append(groupLabel, button("◐", "light or dark (T)", () => this.toggleTheme()), button("?", "keys (?)", () => this.help.toggle()));
    tools.querySelectorAll("button").forEach((made) => made.setAttribute("aria-label", made.title));
    const source = element("span", { className: "source", textContent: recording.source, title: recording.source });
    const header = element("header", {}, element("h1", { textContent: "Millpond" }), source, tools);
    this.root.append(header, this.verdicts, element("div", { className: "body" }, this.stage, this.side), this.help.root);
    document.getElementById("app")?.replaceChildren(this.root);
    document.title = `${recording.source} · Millpond`;

    document.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(this.stage);
    onSystemTheme(() => this.redraw());
    // Two runs of one device are there to be compared.
    const second = panels.findIndex((panel, at) => at > 0 && panel.device === panels[0].device);
    this.show(0, second > 0 ? second : undefined);
    const asked = /[#&]at=(\d+)/.exec(location.hash);
    const { pane } = this.shown[0];
    if (asked) this.seek(pane, pane.timeline.cursorAfter(Number(asked[1])));
    else this.seek(pane, pane.ooms.length > 0 ? pane.ooms[0] + 1 : pane.peak);
  }

  /** The pane that the list and the words are about. */
  get pane(): Pane {
    return this.shown[0].pane;
  }

  /** How many requests have been made in each pane; for a test. */
  panesAt(): number[] {
    return this.shown.map(({ pane }) => pane.timeline.requestsAt(pane.cursor));
  }

  seek(pane: Pane, cursor: number): void {
    const to = Math.max(0, Math.min(pane.timeline.end, cursor));
    pane.cursor = to;
    const requests = pane.timeline.requestsAt(to);
    for (const other of this.shown) {
      if (other.pane !== pane) other.pane.cursor = other.pane.timeline.cursorAt(requests);
    }
    const [from, end] = this.span;
    if (requests < from || requests > end) {
      const half = (end - from) / 2;
      this.zoom([requests - half, requests + half]);
    }
    this.soon();
  }

  zoom([from, to]: Span): void {
    const whole = Math.max(1, ...this.shown.map(({ pane }) => pane.timeline.requestCount));
    const wide = Math.min(whole, Math.max(8, to - from));
    const start = Math.max(0, Math.min(from, whole - wide));
    this.span = Number.isFinite(wide) ? [start, start + wide] : [0, whole];
    this.soon();
  }

  /** Draws now; for a test that measures. */
  draw(): void {
    this.waiting = false;
    for (const { pane, chart, map, figures } of this.shown) {
      map.draw();
      chart.draw();
      const { timeline, cursor } = pane;
      figures.textContent = `${bytes(timeline.active[cursor])} in use · ${bytes(timeline.reserved[cursor])} reserved`;
    }
    this.details.show(this.pane);
    this.list.follow();
  }

  private soon(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => this.waiting && this.draw());
  }

  private paneAt(at: number): Pane {
    return (this.panes[at] ??= new Pane(this.recording.panels[at], this.recording.stacks, this.grouping));
  }

  private show(main: number, beside: number | undefined): void {
    const before = this.shown[0]?.pane;
    this.main = main;
    this.beside = beside === main ? undefined : beside;
    const wanted = this.beside === undefined ? [main] : [main, this.beside];
    const panes = wanted.map((at) => this.paneAt(at));
    if (panes.length > 1) panes[1].colorAs(panes[0]);
    this.shown = panes.map((pane) => this.build(pane));
    this.stage.replaceChildren(...this.shown.map(({ pane, chart, map, legend, figures }) => {
      const heading = element("h2", { textContent: pane.title, title: pane.title });
      const doubt = pane.timeline.contradictions;
      const note = doubt === 0 ? [] : [element("p", { className: "note", textContent: `${count(doubt)} events contradict the state before them: the recording has lost some.` })];
      return element("section", { className: "pane" }, element("div", { className: "heading" }, heading, figures), ...note, chart.root, legend, map.root);
    }));
    this.verdicts.replaceChildren(...panes.flatMap((pane) => verdictOf(pane, (pane, cursor) => this.seek(pane, cursor)) ?? []));
    if (this.mainSelect) this.mainSelect.value = String(main);
    if (this.besideSelect) this.besideSelect.value = this.beside === undefined ? "" : String(this.beside);
    this.most = Math.max(1, ...panes.map(most));
    this.zoom([0, Infinity]);
    if (before && before !== panes[0]) panes[0].cursor = panes[0].timeline.cursorAt(before.timeline.requestsAt(before.cursor));
    if (panes.length > 1) panes[1].cursor = panes[1].timeline.cursorAt(panes[0].timeline.requestsAt(panes[0].cursor));
    this.list.show(panes[0]);
    this.resize();
  }

  private build(pane: Pane): Shown {
    const legend = element("ul", { className: "legend" });
    legend.setAttribute("aria-label", "colours");
    const shown = { pane, chart: new Chart(pane, this), map: new SegmentMap(pane, this.recording.stacks, () => this.soon()), legend, figures: element("span", { className: "figures" }) };
    this.fillLegend(shown);
    return shown;
  }

  private fillLegend({ pane, legend }: Shown): void {
    legend.replaceChildren(
      ...pane.layers.layers.map((layer) => {
        const swatch = element("i");
        swatch.style.background = css(layerColor(layer.color));
        return element("li", { title: `${layer.title}\n${bytes(layer.peak)} at the peak` }, swatch, element("span", { textContent: layer.label }), element("b", { textContent: bytes(layer.peak) }));
      }),
    );
  }

  private group(grouping: Grouping): void {
    this.grouping = grouping;
    this.groupSelect.value = grouping;
    this.panes.forEach((pane) => pane?.regroup(this.recording.stacks, grouping));
    if (this.shown.length > 1) this.shown[1].pane.colorAs(this.shown[0].pane);
    this.redraw();
  }

  private toggleTheme(): void {
    toggleTheme();
    this.redraw();
  }

  private redraw(): void {
    for (const shown of this.shown) {
      shown.chart.stale();
      this.fillLegend(shown);
    }
    this.soon();
  }

  private resize(): void {
    for (const { chart, map } of this.shown) {
      chart.resize();
      map.resize();
    }
    this.soon();
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as Element;
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.root.open) {
      if (event.key === "?") this.help.toggle();
      return;
    }
    if (target.closest("input, select, textarea")) return;
    const act = this.action(event);
    if (!act) return;
    event.preventDefault();
    act();
  }

  private action(event: KeyboardEvent): (() => void) | undefined {
    const { pane } = this;
    const move = (by: number) => () => this.seek(pane, pane.cursor + by);
    const to = (cursor: number) => () => this.seek(pane, cursor);
    const [from, end] = this.span;
    const page = Math.max(1, Math.round((end - from) / 10));
    const leap = (by: number) => () => this.seek(pane, pane.timeline.cursorAt(Math.max(0, pane.timeline.requestsAt(pane.cursor) + by)));
    switch (event.key) {
      case "ArrowLeft": return move(event.shiftKey ? -100 : -1);
      case "ArrowRight": return move(event.shiftKey ? 100 : 1);
      case "ArrowUp": return move(-1);
      case "ArrowDown": return move(1);
      case "PageUp": return leap(-page);
      case "PageDown": return leap(page);
      case "Home": return to(0);
      case "End": return to(pane.timeline.end);
      case "p": case "P": return to(pane.peak);
      case "o": return () => this.oom(1);
      case "O": return () => this.oom(-1);
      case "v": case "V": return () => this.verdict();
      case "/": return () => this.list.input.focus();
      case "n": return () => this.list.step(1);
      case "N": return () => this.list.step(-1);
      case "+": case "=": return () => this.scale(0.5);
      case "-": return () => this.scale(2);
      case "0": return () => this.zoom([0, Infinity]);
      case "[": return () => this.shown.forEach(({ map }) => map.zoom(-1));
      case "]": return () => this.shown.forEach(({ map }) => map.zoom(1));
      case "g": case "G": return () => this.next(this.groupSelect, (value) => this.group(value as Grouping));
      case "d": case "D": return () => this.show((this.main + 1) % this.panes.length, this.beside);
      case "c": case "C": return () => this.nextBeside();
      case "t": case "T": return () => this.toggleTheme();
      case "?": return () => this.help.toggle();
      default: return undefined;
    }
  }

  private scale(by: number): void {
    const [from, to] = this.span;
    const at = this.pane.timeline.requestsAt(this.pane.cursor);
    const wide = (to - from) * by;
    this.zoom([at - wide * ((at - from) / (to - from)), at + wide * ((to - at) / (to - from))]);
  }

  private oom(by: 1 | -1): void {
    const { pane } = this;
    const cursors = pane.ooms.map((event) => event + 1);
    const next = by > 0 ? (cursors.find((at) => at > pane.cursor) ?? cursors[0]) : (cursors.findLast((at) => at < pane.cursor) ?? cursors[cursors.length - 1]);
    if (next !== undefined) this.seek(pane, next);
  }

  private verdict(): void {
    const found = this.shown.find(({ pane }) => pane.timeline.verdict);
    const verdict = found?.pane.timeline.verdict;
    if (found && verdict) this.seek(found.pane, found.pane.timeline.cursorAfter(verdict.at));
  }

  private nextBeside(): void {
    const all = [undefined, ...this.panes.keys()].filter((at) => at !== this.main);
    this.show(this.main, all[(all.indexOf(this.beside) + 1) % all.length]);
  }

  private next(made: HTMLSelectElement, chosen: (value: string) => void): void {
    made.selectedIndex = (made.selectedIndex + 1) % made.options.length;
    chosen(made.value);
  }
}

/** The greatest figure on the chart of a pane: the device's memory where that does not press everything down. */
function most(pane: Pane): number {
  const { timeline } = pane;
  const held = timeline.reserved.reduce((a, b) => Math.max(a, b), 1);
  const usable = (timeline.capacity ?? Infinity) - timeline.others;
  return (usable <= held * 1.6 ? Math.max(usable, held) : held) * 1.12;
}
