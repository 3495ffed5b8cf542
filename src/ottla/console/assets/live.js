// Shows HTML that the server made, and changes only what differs: focus, selection and open details stay.
// Children with data-key are the same child wherever they stand.
function same(a, b) {
  return (
    a.nodeType === b.nodeType &&
    a.nodeName === b.nodeName &&
    (a.nodeType !== 1 || a.getAttribute("data-key") === b.getAttribute("data-key"))
  );
}

function keyOf(node) {
  return node.nodeType === 1 ? node.getAttribute("data-key") : null;
}

function morph(from, to) {
  if (from.nodeType === 3) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !(name === "open" && from.nodeName === "DETAILS")) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  morphChildren(from, to);
}

function morphChildren(from, to) {
  const keyed = new Map([...from.childNodes].filter(keyOf).map((node) => [keyOf(node), node]));
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const key = keyOf(wanted);
    const kept = key === null ? at : keyed.get(key);
    if (kept && same(kept, wanted)) {
      if (kept === at) at = at.nextSibling;
      else from.insertBefore(kept, at);
      morph(kept, wanted);
    } else {
      from.insertBefore(wanted, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

export default {
  template: "<div></div>",
  props: { html: String },
  mounted() {
    setTimeout(() => this.show(), 0); // window.path_prefix is set once the app is mounted
  },
  watch: {
    html() {
      this.show();
    },
  },
  methods: {
    show() {
      const wanted = document.createElement("div");
      wanted.innerHTML = this.html;
      for (const link of wanted.querySelectorAll('a[href^="/"]')) {
        link.setAttribute("href", (window.path_prefix || "") + link.getAttribute("href"));
      }
      morphChildren(this.$el, wanted);
      document.dispatchEvent(new Event("ottla-shown"));
    },
  },
};
