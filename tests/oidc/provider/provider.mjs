// An OpenID Connect provider for tests: `node provider.mjs PORT PACKAGES`, where PACKAGES is the
// folder of node_modules. It prints "ready" once it listens. REDIRECT_URI is that of the daemon.
//
// A user logs in under any name; the groups of a name are those in GROUPS. `GET /test/next?kind=K`
// replaces the ID token of the next answer, as TOKENS has it.
import { createRequire } from "node:module";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [port, packages] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(packages, "package.json")));
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));
const jose = await import(pathToFileURL(require.resolve("jose")));

const GROUPS = { ann: ["ml-team"], lea: ["ml-team", "leads"], olga: ["ops"], eve: [] };
const issuer = `http://127.0.0.1:${port}`;
const daemon = process.env.REDIRECT_URI;

function keyOf(kind, id, options) {
  const { privateKey } = generateKeyPairSync(kind, options);
  return { ...privateKey.export({ format: "jwk" }), kid: id, use: "sig" };
}
const rsa = keyOf("rsa", "r1", { modulusLength: 2048 });
const ec = keyOf("ec", "e1", { namedCurve: "P-256" });

const provider = new Provider(issuer, {
  jwks: { keys: [{ ...rsa, alg: "RS256" }, { ...ec, alg: "ES256" }] },
  clients: [
    {
      client_id: "lockstep",
      client_secret: "the client's secret",
      redirect_uris: [daemon],
      response_types: ["code"],
      grant_types: ["authorization_code", "urn:ietf:params:oauth:grant-type:device_code"],
      id_token_signed_response_alg: "ES256",
    },
    {
      client_id: "public",
      token_endpoint_auth_method: "none",
      redirect_uris: [daemon],
      response_types: ["code"],
      grant_types: ["authorization_code", "urn:ietf:params:oauth:grant-type:device_code"],
      id_token_signed_response_alg: "RS256",
    },
  ],
  conformIdTokenClaims: false,
  claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
  features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
  findAccount: (_, name) => ({
    accountId: name,
    claims: () => ({
      sub: name,
      preferred_username: `${name}@example.com`,
      groups: GROUPS[name] ?? [],
    }),
  }),
});

const signed = (claims, key = ec, alg = "ES256", kid = "e1") =>
  jose.importJWK(key, alg).then((secret) =>
    new jose.SignJWT(claims).setProtectedHeader({ alg, kid }).sign(secret),
  );
const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

const TOKENS = {
  forged: (claims, token) => {
    const [head, , signature] = token.split(".");
    return [head, encoded({ ...claims, preferred_username: "root" }), signature].join(".");
  },
  unsigned: (claims) => `${encoded({ alg: "none" })}.${encoded(claims)}.`,
  ended: (claims) => signed({ ...claims, exp: claims.iat - 600 }),
  late: (claims) => signed({ ...claims, iat: claims.iat - 600 }),
  early: (claims) => signed({ ...claims, iat: claims.iat + 600 }),
  foreign: (claims) => signed({ ...claims, aud: "another-client" }),
  unknown: (claims) => signed(claims, keyOf("ec", "e9", { namedCurve: "P-256" }), "ES256", "e9"),
  replayed: (claims) => signed({ ...claims, nonce: randomUUID() }),
};
let next;

provider.use(async (context, rest) => {
  if (context.path === "/test/next") {
    next = TOKENS[context.query.kind];
    context.status = next ? 204 : 404;
    return;
  }
  await rest();
  if (context.path === "/device/auth") context.body = { ...context.body, interval: 1 };
  if (context.path !== "/token" || !context.body?.id_token || !next) return;
  const claims = jose.decodeJwt(context.body.id_token);
  context.body = { ...context.body, id_token: await next(claims, context.body.id_token) };
  next = undefined;
});

provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
