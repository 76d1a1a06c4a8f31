// Where we are: a path and its parameters behind the #, so that a page works behind any prefix and can be shared.

const routes = [];
let leave = null;

/** `pattern` has parts like :id; `open` gets {params, query, signal} and gives the page. */
export function route(pattern, page) {
  const names = [];
  const source = pattern.replace(/:(\w+)/g, (_, name) => {
    names.push(name);
    return "([^/]+)";
  });
  routes.push({ match: new RegExp(`^${source}$`), names, page });
}

function place() {
  const [path, search = ""] = location.hash.slice(1).split("?");
  return { path: path || "/", search };
}

export const query = () => new URLSearchParams(place().search);
export const path = () => place().path;

/** The address of a page: the tenant that is shown goes along. */
export function href(target, params = {}) {
  const all = new URLSearchParams();
  const tenant = query().get("tenant");
  if (tenant) all.set("tenant", tenant);
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") all.set(name, value);
  }
  const search = all.toString();
  return `#${target}${search ? `?${search}` : ""}`;
}

export function go(target, params) {
  location.hash = href(target, params);
}

/** Change parameters of this page; an empty one is taken out. */
export function setQuery(changes, { replace = false } = {}) {
  const all = query();
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) all.delete(name);
    else all.set(name, value);
  }
  const search = all.toString();
  const target = `#${place().path}${search ? `?${search}` : ""}`;
  if (replace) location.replace(target);
  else location.hash = target;
}

/** The parameters of an address; null if it is not of the kind, or no address at all (`%E0`). */
function named(names, found) {
  try {
    return found && Object.fromEntries(names.map((name, place) => [name, decodeURIComponent(found[place + 1])]));
  } catch {
    return null;
  }
}

/** Show the page of the address, now and whenever it changes. */
export function start(show) {
  const open = () => {
    leave?.abort();
    leave = new AbortController();
    const { path: current } = place();
    for (const { match, names, page } of routes) {
      const params = named(names, match.exec(current));
      if (params) {
        show(page, { params, query: query(), signal: leave.signal }, current);
        return;
      }
    }
    show(null, { params: {}, query: query(), signal: leave.signal }, current);
  };
  addEventListener("hashchange", open);
  open();
  return open;
}
