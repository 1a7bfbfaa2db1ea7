// Elements, made in one expression.

type Options<K extends keyof HTMLElementTagNameMap> = Partial<Omit<HTMLElementTagNameMap[K], "style" | "dataset">>;

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  options: Options<K> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  Object.assign(made, options);
  made.append(...children);
  return made;
}

export function button(text: string, title: string, pressed: () => void): HTMLButtonElement {
  const made = element("button", { type: "button", textContent: text, title });
  made.addEventListener("click", pressed);
  return made;
}

export function select<T extends string>(label: string, options: [T, string][], chosen: (value: T) => void): [HTMLLabelElement, HTMLSelectElement] {
  const made = element("select", {}, ...options.map(([value, text]) => element("option", { value, textContent: text })));
  made.addEventListener("change", () => chosen(made.value as T));
  return [element("label", {}, element("span", { textContent: label }), made), made];
}
