// Brings an open page up to date, shows times in the viewer's zone, and asks before a button does something.
// Texts reach the page as text nodes and nothing else: the policy of the page forbids every other way.

const DRAWN = new Set(["svg", "g", "path", "rect"]);
const ROOT = document.documentElement;
const HIDDEN_FOR = 30000; // ms after which a page that nobody sees lets its stream go
const QUIET_FOR = 5000; // ms between two announcements to a screen reader

// Pieces: a text, or [tag, {attribute: value}, ...children].

function make(piece) {
  if (typeof piece === "string") return document.createTextNode(piece);
  const [tag, attributes, ...children] = piece;
  const node = DRAWN.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (/^on|^style$|^src/i.test(name) || (/^(?:href|action)$/.test(name) && !/^[/?]/.test(value))) continue;
    node.setAttribute(name, value);
  }
  node.append(...children.map(make));
  return node;
}

// Changes `old` into `fresh` where it can, so that what has the focus keeps it; returns the node that is there afterwards.
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return fresh;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return old;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "data-key" && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.nodeName === "TIME") return old; // its text is ours
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((child, place) => (place < before.length ? morph(before[place], child) : old.append(child)));
  before.slice(after.length).forEach((child) => child.remove());
  return old;
}

const container = (name) => document.querySelector(`[data-live="${CSS.escape(name)}"]`);

function apply({ now, reset, sections }) {
  skew = Date.parse(now) - Date.now();
  for (const [name, { gone, put }] of Object.entries(sections)) {
    const parent = container(name);
    if (parent === null) continue;
    const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
    const kept = new Set(put.map(([key]) => key));
    for (const [key, child] of known) {
      if (reset ? !kept.has(key) : gone.includes(key)) {
        child.remove();
        known.delete(key);
      }
    }
    for (const [key, behind, piece] of put) {
      const old = known.get(key);
      let node = old;
      if (piece !== null) {
        const fresh = make(piece);
        fresh.dataset.key = key;
        node = old === undefined ? fresh : morph(old, fresh);
        if (!reset && parent.hasAttribute("data-glow")) glow(node);
      }
      const neighbour = behind === null ? null : (known.get(behind) ?? null);
      if (node.parentNode !== parent || node.previousElementSibling !== neighbour) {
        if (neighbour === null) parent.prepend(node);
        else neighbour.after(node);
      }
      known.set(key, node);
    }
    if (parent.hasAttribute("data-announce") && !reset) announce(parent);
  }
  if (reset) {
    // What the answer does not name has nothing in it any more.
    for (const parent of document.querySelectorAll("[data-live]")) if (!(parent.dataset.live in sections)) parent.replaceChildren();
  }
  showTimes();
  showTitle();
}

function glow(node) {
  node.classList.remove("fresh");
  void node.getBoundingClientRect(); // so that it begins anew
  node.classList.add("fresh");
}

// For screen readers: the newest state of what matters, and not each step on the way.

let toSay = null;
let saidAt = 0;

function announce(parent) {
  const waiting = toSay !== null;
  toSay = parent;
  if (waiting) return;
  setTimeout(() => {
    document.getElementById("announce").textContent = toSay.textContent.trim().replace(/\s+/g, " ").slice(0, 300);
    saidAt = Date.now();
    toSay = null;
  }, Math.max(300, saidAt + QUIET_FOR - Date.now()));
}

// Times.

let skew = Date.parse(ROOT.dataset.now) - Date.now(); // of the server's clock before ours, in ms
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function age(seconds) {
  if (seconds < 1) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

function showTimes() {
  const now = Date.now() + skew;
  for (const node of document.querySelectorAll("time")) {
    const at = Date.parse(node.dateTime);
    if (Number.isNaN(at)) continue;
    const near = Math.abs(now - at) < 43200000;
    const show = node.dataset.show;
    const text = show === "age" ? age((now - at) / 1000) : show === "clock" && near ? clock.format(at) : day.format(at);
    if (node.textContent !== text) node.textContent = text;
  }
}

const ownTitle = document.title;

function showTitle() {
  const title = (container("title")?.textContent ?? "") + ownTitle;
  if (document.title !== title) document.title = title;
}

// The stream of changes.

let cursor = ROOT.dataset.cursor;
let source = null;
let again = 0;

function pulse(state, text) {
  const node = document.getElementById("pulse");
  node.dataset.state = state;
  if (node.textContent !== text) node.textContent = text;
}

function watch() {
  stop();
  const address = new URL(location.href);
  address.searchParams.set("live", cursor);
  source = new EventSource(address.pathname + address.search);
  source.onopen = () => pulse("live", "live");
  source.onmessage = (event) => {
    cursor = event.lastEventId || cursor;
    apply(JSON.parse(event.data));
    pulse("live", "live");
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) {
      pulse("lost", "not live: reload, or log in again");
      again = setTimeout(watch, 10000);
    } else {
      pulse("lost", "reconnecting");
    }
  };
}

function stop() {
  clearTimeout(again);
  source?.close();
  source = null;
}

if (cursor) {
  let hidden = 0;
  watch();
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(stop, HIDDEN_FOR);
    else if (source === null) watch();
  });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => event.persisted && watch());
}

// The filter of a table: without loading the page again.

const filter = document.getElementById("filter");

if (filter) {
  const state = filter.elements.namedItem("state");
  const go = (search, push) => {
    history[push ? "pushState" : "replaceState"](null, "", location.pathname + search);
    cursor = "new";
    watch();
  };
  const chosen = () => {
    const pairs = [...new FormData(filter)].filter(([, value]) => value !== "");
    return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
  };
  const follow = (parameters) => {
    state.value = parameters.get("state") ?? "";
    state.disabled = state.value === "";
  };
  let typing = 0;
  filter.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => go(chosen(), false), 200);
  });
  filter.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    go(chosen(), false);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('[data-live="states"] a, [data-live="pages"] a');
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    follow(new URL(link.href).searchParams);
    go(new URL(link.href).search, true);
    if (link.closest('[data-live="pages"]')) document.querySelector("table.items").scrollIntoView({ block: "start" });
  });
  addEventListener("popstate", () => {
    const parameters = new URLSearchParams(location.search);
    follow(parameters);
    for (const name of ["q", "group", "order"]) filter.elements.namedItem(name).value = parameters.get(name) ?? "";
    cursor = "new";
    watch();
  });
}

// Questions before something is done.

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-ask]");
  if (!form) return;
  event.preventDefault();
  const dialog = document.getElementById("ask");
  const yes = document.getElementById("ask-yes");
  // A copy: what the question was about may be gone from the page before it is answered.
  const copy = form.cloneNode(true);
  document.getElementById("ask-text").textContent = form.dataset.ask;
  yes.textContent = form.dataset.verb;
  yes.className = form.querySelector("button").className;
  dialog.returnValue = "no";
  dialog.onclose = () => {
    if (dialog.returnValue !== "yes") return;
    const sure = document.createElement("input");
    sure.type = "hidden";
    sure.name = "sure";
    sure.value = "yes";
    copy.append(sure);
    copy.hidden = true;
    document.body.append(copy);
    copy.submit();
  };
  dialog.showModal();
});

showTimes();
showTitle();
setInterval(showTimes, 1000);
