// Gives life to the pages: everything that is marked with data-do, files dropped on the question,
// what is announced to screen readers. No answer and no history is made here.
"use strict";
(() => {
  const FILE_KB = 256; // largest file that is read
  const FILE_HEAD = 3000; // characters kept of the beginning of a long file
  const FILE_TAIL = 9000; // and of its end, where errors stand
  const find = (selector, within = document) => within.querySelector(selector);
  const texts = () => find("#hl-texts")?.dataset ?? {};
  const box = () => find("#hl-question textarea");

  // Values that Gradio reads: set as if they had been typed.
  function setValue(field, value) {
    if (!field) return;
    const prototype = field.tagName === "TEXTAREA" ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(prototype.prototype, "value").set.call(field, value);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  const hidden = (name) => find(`#${name} textarea, #${name} input`);
  const send = () => setTimeout(() => find("#hl-send")?.click(), 60);

  function announce(text) {
    let place = find("#hl-announcer");
    if (!place) {
      place = document.createElement("div");
      place.id = "hl-announcer";
      place.className = "hl-unseen";
      place.setAttribute("role", "status");
      place.setAttribute("aria-live", "polite");
      document.body.append(place);
    }
    if (place.textContent !== text) place.textContent = text;
  }

  // Colours
  function applyTheme() {
    let wanted = null;
    try { wanted = localStorage.getItem("hpcllm-theme"); } catch { /* not allowed: the system's */ }
    const dark = wanted ? wanted === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.classList.toggle("dark", dark);
    document.body?.classList.toggle("dark", dark);
  }
  function switchTheme() {
    const dark = !document.documentElement.classList.contains("dark");
    try { localStorage.setItem("hpcllm-theme", dark ? "dark" : "light"); } catch { /* for now only */ }
    applyTheme();
  }

  // Copying
  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const label = button.textContent;
    const copied = texts().copied ?? button.dataset.copied ?? "✓";
    button.textContent = copied;
    announce(copied);
    setTimeout(() => { if (button.textContent === copied) button.textContent = label; }, 1600);
  }

  // Feedback
  async function vote(turn, rating, form) {
    const body = { receipt_id: turn.dataset.receipt, rating, reason: "", comment: "" };
    if (form) {
      body.reason = new FormData(form).get("reason") ?? "";
      body.comment = new FormData(form).get("comment") ?? "";
    }
    const note = find(".hl-feedback-note", turn);
    const root = texts().feedback ?? document.body.dataset.feedback;
    let done = false;
    try {
      const response = await fetch(root, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      });
      done = response.ok;
    } catch { /* told below */ }
    note.textContent = done ? texts().thanks : texts().failed;
    if (!done) return;
    for (const name of ["up", "down"]) {
      find(`[data-do=${name}]`, turn)?.setAttribute("aria-pressed", String(name === rating));
    }
    const own = find(".hl-feedback", turn);
    if (form || rating === "up") {
      // What is hidden loses the focus; the keyboard goes on from the button that opened it.
      if (own.contains(document.activeElement)) find(`[data-do=${rating}]`, turn)?.focus();
      own.hidden = true;
    } else {
      own.hidden = false;
      own.scrollIntoView({ block: "nearest" });
      find("input", own)?.focus();
    }
  }

  // Asking
  function startEdit(question, position, focus) {
    setValue(hidden("hl-position"), position);
    setValue(box(), question);
    const banner = find(".hl-editing");
    if (banner) banner.hidden = !focus;
    if (focus) box()?.focus();
  }
  function cancelEdit() {
    startEdit("", "", false);
    box()?.focus();
  }

  const actions = {
    theme: switchTheme,
    copy: (button) => copy(button.dataset.copy, button),
    share: (button) => copy(new URL(button.dataset.link, document.baseURI).href, button),
    "copy-ticket": (button) => copy(find("textarea", button.closest(".hl-ticket")).value, button),
    up: (button) => vote(button.closest(".hl-turn"), "up"),
    down: (button) => vote(button.closest(".hl-turn"), "down"),
    start: (button) => { startEdit(button.dataset.question, "", false); send(); },
    edit: (button) => {
      startEdit(find(".hl-question", button.closest(".hl-turn")).dataset.question,
        button.dataset.position, true);
    },
    again: (button) => {
      startEdit(find(".hl-question", button.closest(".hl-turn")).dataset.question,
        button.dataset.position, false);
      send();
    },
    "cancel-edit": cancelEdit,
    attach: () => find("#hl-attach input[type=file]").click(),
  };

  document.addEventListener("click", (event) => {
    const cite = event.target.closest?.("a.hl-cite");
    if (cite) {
      const source = document.getElementById(cite.getAttribute("href").slice(1));
      if (source) {
        event.preventDefault();
        source.open = true;
        source.scrollIntoView({ block: "nearest" });
        find("summary", source).focus();
      }
      return;
    }
    const code = event.target.closest?.(".hl-copy-code");
    if (code) {
      copy(find("code", code.closest("figure")).textContent, code);
      return;
    }
    const language = event.target.closest?.("[data-language]")?.dataset.language;
    if (language) document.cookie = `hpcllm_language=${language};path=/;max-age=15552000;samesite=lax`;
    const button = event.target.closest?.("[data-do]");
    if (button) actions[button.dataset.do]?.(button);
    else if (event.target.closest?.("#hl-send, #hl-stop")) setTimeout(() => box()?.focus(), 150);
    for (const menu of document.querySelectorAll(".hl-menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
  document.addEventListener("toggle", (event) => {
    const ticket = event.target;
    if (ticket.matches?.(".hl-ticket[open]")) ticket.scrollIntoView({ block: "nearest" });
  }, true);
  document.addEventListener("submit", (event) => {
    const form = event.target.closest?.(".hl-feedback");
    if (!form) return;
    event.preventDefault();
    vote(form.closest(".hl-turn"), "down", form);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const menu = find(".hl-menu[open]");
    if (menu) {
      menu.open = false;
      find("summary", menu).focus();
    } else if (find(".hl-editing:not([hidden])")) cancelEdit();
  });

  // Files
  const fill = (text, values) =>
    text.replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");
  async function addFile(file) {
    const say = (key) => {
      const text = fill(texts()[key] ?? "", { name: file.name, limit: FILE_KB });
      find(".hl-file-note").textContent = text;
    };
    if (file.size > FILE_KB * 1024) return say("fileLarge");
    let content;
    try {
      content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      return say("fileBinary");
    }
    if (content.includes("\0")) return say("fileBinary");
    const long = content.length > FILE_HEAD + FILE_TAIL;
    if (long) content = `${content.slice(0, FILE_HEAD)}\n[…]\n${content.slice(-FILE_TAIL)}`;
    const fence = "`".repeat(Math.max(3, ...[...content.matchAll(/`+/g)].map((m) => m[0].length + 1)));
    const before = box().value.trimEnd();
    const name = file.name.replace(/[`\n]/g, "");
    setValue(box(), `${before ? `${before}\n\n` : ""}${name}:\n${fence}\n${content.trimEnd()}\n${fence}\n`);
    say(long ? "fileCut" : "fileAdded");
    box().focus();
    box().setSelectionRange(before.length, before.length);
    box().scrollTop = 0;
  }
  document.addEventListener("change", (event) => {
    if (event.target.matches?.("#hl-attach input[type=file]")) {
      const [file] = event.target.files;
      if (file) addFile(file);
      event.target.value = "";
    } else if (event.target.matches?.(".hl-scope input")) {
      const ticked = [...document.querySelectorAll(".hl-scope input:checked")];
      setValue(hidden("hl-scopes"), ticked.map((input) => input.value).join(" "));
    } else if (event.target.matches?.(".hl-cluster select")) {
      setValue(hidden("hl-cluster"), event.target.value);
      try { localStorage.setItem("hpcllm-cluster", event.target.value); } catch { /* for now only */ }
    }
  });
  const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  for (const name of ["dragenter", "dragover"]) {
    document.addEventListener(name, (event) => {
      if (!box() || !carriesFiles(event)) return;
      event.preventDefault();
      find("#hl-composer").classList.add("hl-dropping");
    }, true);
  }
  for (const name of ["dragleave", "drop", "dragend"]) {
    document.addEventListener(name, () => find("#hl-composer")?.classList.remove("hl-dropping"), true);
  }
  document.addEventListener("drop", (event) => {
    if (!box() || !carriesFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.dataTransfer.files[0]) addFile(event.dataTransfer.files[0]);
  }, true);
  document.addEventListener("paste", (event) => {
    const file = event.clipboardData?.files?.[0];
    if (!file || !box() || !event.target.closest?.("#hl-question")) return;
    event.preventDefault();
    event.stopPropagation();
    addFile(file);
  }, true);

  // What changes while the page lives
  let known = "";
  function follow() {
    const turns = find("#hl-log .hl-turns");
    const conversation = turns?.dataset.conversation ?? "";
    if (conversation && conversation !== known) {
      const address = new URL(location.href);
      address.searchParams.set("c", conversation);
      history.replaceState(null, "", address);
    }
    known = conversation;
    const list = find("#hl-earlier-data .hl-earlier");
    const menu = find(".hl-earlier-list");
    if (list && menu && menu.innerHTML !== list.outerHTML) menu.innerHTML = list.outerHTML;
    const live = find("#hl-live .hl-turn");
    const busy = Boolean(find("#hl-live .hl-live-turn"));
    document.body.classList.toggle("hl-talking", Boolean(turns || live));
    document.body.classList.toggle("hl-busy", busy);
    if (busy) find(".hl-editing")?.setAttribute("hidden", "");
  }
  let wasLive = false;
  function speak() {
    const status = find("#hl-live .hl-status-text");
    const error = find("#hl-live .hl-error");
    if (status) announce(`${status.textContent} …`);
    if (!status && wasLive && !error) {
      const answers = document.querySelectorAll("#hl-log .hl-text");
      announce(answers[answers.length - 1]?.textContent.trim() ?? "");
      find(".hl-file-note").textContent = "";
    }
    wasLive = Boolean(status);
  }
  let atEnd = true;
  addEventListener("scroll", () => {
    atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 160;
  }, { passive: true });
  function scroll() {
    const turn = find("#hl-live .hl-turn");
    if (turn && atEnd) scrollTo({ top: document.documentElement.scrollHeight });
  }
  function showFinished() {
    // A long answer is read from its question on.
    const turns = document.querySelectorAll("#hl-log .hl-turn");
    const last = turns[turns.length - 1];
    if (last && last.getBoundingClientRect().top < 0) last.scrollIntoView({ block: "start" });
  }
  function tick() {
    const place = find(".hl-elapsed");
    if (!place) return;
    const seconds = Math.max(0, Date.now() / 1000 - Number(place.dataset.since));
    const shown = seconds >= 1 ? `${Math.floor(seconds)} s` : "";
    if (place.textContent !== shown) place.textContent = shown;
  }
  function prepare() {
    if (!box() || !texts().language || document.body.dataset.prepared) return;
    document.body.dataset.prepared = "yes";
    document.documentElement.lang = texts().language === "pt" ? "pt-BR" : "en";
    const log = find("#hl-log");
    log.setAttribute("role", "log");
    log.setAttribute("aria-live", "off"); // the announcer speaks instead, once
    log.setAttribute("aria-label", texts().log);
    box().setAttribute("aria-label", texts().question);
    const select = find(".hl-cluster select");
    let stored = null;
    try { stored = localStorage.getItem("hpcllm-cluster"); } catch { /* the site's default */ }
    if (select && stored !== null && [...select.options].some((o) => o.value === stored)) {
      select.value = stored;
      setValue(hidden("hl-cluster"), stored);
    }
  }
  let wasBusy = false;
  function changed() {
    prepare();
    follow();
    speak();
    tick();
    scroll();
    const busy = Boolean(find("#hl-live .hl-live-turn"));
    if (wasBusy && !busy) setTimeout(showFinished, 0);
    wasBusy = busy;
  }
  function begin() {
    applyTheme();
    let planned = false;
    new MutationObserver(() => {
      if (planned) return;
      planned = true;
      requestAnimationFrame(() => { planned = false; changed(); });
    }).observe(document.body, { childList: true, subtree: true });
    changed();
    setInterval(tick, 500);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
