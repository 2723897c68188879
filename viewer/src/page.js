// What a page of the server does beyond being read: it follows a diagnosis that
// is under way, moves between steps by keyboard, and keeps the folds in the
// address. Everything that arrives is put in as text, never as markup.

const sections = document.querySelectorAll("[data-events]");

function text(value) {
  return typeof value === "number" ? value.toLocaleString("en-US") : String(value ?? "");
}

function follow(section) {
  const events = new EventSource(section.dataset.events);
  // A form that was sent leads elsewhere: news must not call its reader back.
  addEventListener("submit", () => events.close());
  const began = section.querySelector("[data-field=state]")?.textContent;
  events.addEventListener("message", (event) => {
    const summary = JSON.parse(event.data);
    for (const field of section.querySelectorAll("[data-field]")) {
      const now = text(summary[field.dataset.field]);
      if (field.textContent !== now) field.textContent = now;
    }
    const state = section.querySelector("[data-field=state]");
    if (state) state.className = "state " + text(summary.state).replace(/[^a-z]/g, "");
    const over = !["preparing", "tracking"].includes(summary.state);
    const newer = (summary.sketch_version ?? 0) > Number(section.dataset.version ?? 0);
    if (over) events.close();
    // The list of versions and the buttons follow the state; the sketch waits
    // until its reader wants the newer one.
    if ("reload" in section.dataset && newer) location.reload();
    else if (over && summary.state !== began) location.reload();
    for (const link of section.querySelectorAll("[data-newer]")) link.hidden = !newer;
  });
}

sections.forEach(follow);

const folds = [...document.querySelectorAll(".fold > details")];
const name = (fold) => fold.querySelector(".step")?.id.replace("step-", "");

function keep() {
  const here = new URL(location.href);
  const open = folds.filter((f) => f.open).map(name);
  here.searchParams.delete("unfolded");
  if (open.length === 0) here.searchParams.delete("open");
  else if (open.length === folds.length) here.searchParams.set("open", "all");
  else here.searchParams.set("open", open.join(","));
  if (here.href !== location.href) history.replaceState(null, "", here);
}

const asked = new URL(location.href).searchParams.get("open");
if (asked) {
  const names = asked.split(",");
  for (const fold of folds) fold.open = asked === "all" || names.includes(name(fold));
}
for (const fold of folds) fold.addEventListener("toggle", keep);

function move(by) {
  const steps = [...document.querySelectorAll(".step")].filter((s) => s.checkVisibility());
  if (steps.length === 0) return;
  const at = steps.indexOf(document.activeElement?.closest(".step"));
  const next = at < 0 ? (by > 0 ? 0 : steps.length - 1) : Math.min(Math.max(at + by, 0), steps.length - 1);
  steps[next].focus({ preventScroll: true });
  steps[next].scrollIntoView({ block: "center" });
  history.replaceState(null, "", "#" + steps[next].id);
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, textarea, select")) return;
  if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "e") {
    const open = folds.some((f) => !f.open);
    for (const fold of folds) fold.open = open;
  } else if (event.key === "Escape") document.activeElement?.closest(".figures")?.blur();
  else return;
  event.preventDefault();
});
