// A choice of versions above the contents: those that versions.js in the folder above lists when the page is opened.
document.addEventListener("DOMContentLoaded", () => {
  const root = document.documentElement.dataset.content_root || "./";
  const list = document.createElement("script");
  list.src = root + "../versions.js";
  list.onload = () => {
    const [here, versions] = [DOCUMENTATION_OPTIONS.VERSION, window.TILEWRIGHT_VERSIONS || []];
    const choice = document.createElement("select");
    choice.className = "versions";
    choice.setAttribute("aria-label", "version of the documentation");
    for (const version of versions) choice.add(new Option(version, version, version === here, version === here));
    choice.onchange = () => { location.href = `${root}../${choice.value}/index.html`; };
    document.querySelector(".sidebar-brand")?.after(choice);
  };
  document.head.append(list);
});
