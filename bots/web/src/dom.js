// SPDX-License-Identifier: BSD-2-Clause
// Small helpers around the document.

/**
 * @param {string} id
 * @returns {any}
 */
export function element(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/**
 * @param {string} tag
 * @param {string} [className]
 * @param {string} [text]
 * @returns {HTMLElement}
 */
export function make(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

/**
 * Sets what differs: a live region speaks on every change.
 * @param {Element} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * @param {Element} node
 * @param {string} name
 * @param {string} value
 */
export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/**
 * Makes a parent's children match the items: kept by key, made, changed and removed as needed.
 * @template {{key: string}} Item
 * @param {Element} parent
 * @param {Item[]} items
 * @param {(item: Item) => HTMLElement} create
 * @param {(node: HTMLElement, item: Item) => void} change
 */
export function keyed(parent, items, create, change) {
  const nodes = new Map([...parent.children].map((node) => [/** @type {HTMLElement} */ (node).dataset.key, node]));
  let next = parent.firstElementChild;
  for (const item of items) {
    const known = /** @type {HTMLElement|undefined} */ (nodes.get(item.key));
    nodes.delete(item.key);
    const node = known ?? create(item);
    node.dataset.key = item.key;
    if (node === next) next = next.nextElementSibling;
    else parent.insertBefore(node, next);
    change(node, item);
  }
  for (const node of nodes.values()) node.remove();
}
