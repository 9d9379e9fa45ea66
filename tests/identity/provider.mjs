// node provider.mjs PORT CALLBACK ACCOUNTS: npm's oidc-provider, certified by the OpenID Foundation,
// with its own log-in pages. ACCOUNTS is JSON: name -> claims.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.IDENTITY_FOLDER}/`);
const { Provider } = await import(require.resolve("oidc-provider"));
const [port, callback, accounts] = process.argv.slice(2);
const people = JSON.parse(accounts);

const provider = new Provider(`http://localhost:${port}`, {
  clients: [
    { client_id: "fleetwatch", client_secret: "between-the-two-of-us", redirect_uris: [callback] },
  ],
  claims: {
    openid: ["sub"],
    email: ["email", "email_verified"],
    profile: ["name", "preferred_username", "groups"],
  },
  conformIdTokenClaims: false,
  cookies: { keys: ["one", "two"] },
  features: { devInteractions: { enabled: true } },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, ...people[id] }),
  }),
});
provider.listen(Number(port), "localhost", () => console.log("ready"));
