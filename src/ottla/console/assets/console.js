// Theme, shortcuts and copying: what needs no server.
(() => {
  const saved = localStorage.getItem("ottla-theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = (theme) => document.documentElement.setAttribute("data-theme", theme);
  apply(saved || (system.matches ? "dark" : "light"));
  system.addEventListener("change", (event) => {
    if (!localStorage.getItem("ottla-theme")) apply(event.matches ? "dark" : "light");
  });

  const toggleTheme = () => {
    const next = document.documentElement.getAttribute("data-theme") === "dark" ? "light" : "dark";
    localStorage.setItem("ottla-theme", next);
    apply(next);
  };
  const help = () => {
    const dialog = document.querySelector("dialog.help");
    if (dialog) dialog.open ? dialog.close() : dialog.showModal();
  };
  const rowsFocus = (step) => {
    const rows = [...document.querySelectorAll(".main tbody th a, .main details.msg > summary, .main .broker a.name")];
    if (!rows.length) return;
    const at = rows.indexOf(document.activeElement);
    rows[Math.max(0, Math.min(rows.length - 1, at + step))].focus();
  };
  const places = { c: "/", t: "/topics", g: "/groups", x: "/transactions", d: "/letters", b: "/plan" };
  let went = 0;

  document.addEventListener("keydown", (event) => {
    const field = event.target.closest("input, textarea, select");
    if (field) {
      if (event.key === "Escape") field.blur();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) field.form?.requestSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (Date.now() - went < 1500 && places[event.key]) {
      went = 0;
      location.href = (window.path_prefix || "") + places[event.key];
    } else if (event.key === "g") went = Date.now();
    else if (event.key === "/") document.querySelector(".main [type=search]")?.focus();
    else if (event.key === "?") help();
    else if (event.key === "d") toggleTheme();
    else if (event.key === "j") rowsFocus(1);
    else if (event.key === "k") rowsFocus(-1);
    else return;
    event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    const asked = event.target.closest("[data-page]");
    if (!asked) return;
    event.preventDefault();
    if (asked.dataset.page === "theme") toggleTheme();
    if (asked.dataset.page === "help") help();
    if (asked.dataset.page === "skip") document.querySelector(".main")?.focus();
    if (asked.dataset.page === "copy") {
      const text = asked.closest(".msg-body, .panel")?.querySelector("pre")?.textContent ?? "";
      navigator.clipboard?.writeText(text).then(() => (asked.textContent = "Copied"));
    }
  });

  // What is typed into a filter hides the rows that don't hold it.
  const filter = (field) => {
    const wanted = field.value.trim().toLowerCase();
    for (const row of document.querySelectorAll(".main tbody tr")) {
      row.hidden = wanted !== "" && !row.querySelector("th").textContent.toLowerCase().includes(wanted);
    }
  };
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-filter]")) filter(event.target);
  });
  // The server knows nothing of filters: what it has sent anew is filtered again.
  document.addEventListener("ottla-shown", () => document.querySelectorAll("[data-filter]").forEach(filter));
})();
