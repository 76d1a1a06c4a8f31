// Whose token this is, what it may do, and whose jobs are shown.

import { get } from "./api.js";
import { query, setQuery } from "./router.js";

const DEFAULT_TENANT = "default";
let principal = { principal: "", tenant_id: null, scopes: [] };

export async function openSession() {
  principal = await get("v1/whoami");
  return principal;
}

export const who = () => principal;

export const may = (scope) => principal.scopes.includes(scope);

/** Whether the token is for the whole installation. */
export const isForAll = () => principal.tenant_id === null;

/** The tenant whose jobs are shown: the token's, or the one in the address. */
export const tenant = () => principal.tenant_id || query().get("tenant") || DEFAULT_TENANT;

export const isDefaultTenant = (name) => name === DEFAULT_TENANT;

/** For queries of the API: nothing where the default will do. */
export const tenantQuery = () => ({ tenant_id: principal.tenant_id || isDefaultTenant(tenant()) ? "" : tenant() });

export function showTenant(name) {
  setQuery({ tenant: isDefaultTenant(name) ? "" : name, cursor: "" });
}
