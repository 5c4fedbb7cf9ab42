import { createHash, createHmac, createPublicKey, timingSafeEqual, verify as verifySignature } from "node:crypto";
import type { Event } from "./api.js";

/**
 * Why a request is not taken for a webhook of Coffer. A receiver answers all of them 401. It is also why
 * a statement or a receipt is refused, with "type", "expired" and "sums" for these alone.
 */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
  readonly reason: "headers" | "timestamp" | "signature" | "key" | "body" | "type" | "expired" | "sums";

  constructor(reason: WebhookError["reason"], message: string) {
    super(message);
    this.reason = reason;
  }
}

/** The headers of a request, as fetch, Node or a framework has them. Names in any case. */
export type RequestHeaders = Headers | Record<string, string | string[] | undefined>;

export interface VerifyOptions {
  /** How far the timestamp may be from this machine's clock, in seconds; 300 unless given. */
  tolerance?: number;
  /** Another clock, in milliseconds since 1970. */
  now?: number;
}

const toleranceUsual = 300;
const signaturesMax = 16;

/** An ed25519 public key in SubjectPublicKeyInfo is these bytes and then the key's own 32. */
const ed25519Prefix = Buffer.from("302a300506032b6570032100", "hex");

/**
 * Throws a WebhookError unless the body is what was signed with the key: the endpoint's
 * secret (whsec_…, for v1) or the installation's public key (whpk_…, for v1a). With several
 * keys one of them has to match, as while a secret is replaced.
 *
 * The body is the raw body: parsing and printing it again changes it. verify does not know
 * which ids were handled already: a receiver drops what comes twice.
 */
export function verify(body: string | Uint8Array, headers: RequestHeaders, key: string | readonly string[], options: VerifyOptions = {}): void {
  const matchers = (typeof key === "string" ? [key] : key).map(matcher);
  const id = header(headers, "webhook-id");
  const timestamp = header(headers, "webhook-timestamp");
  const signatures = header(headers, "webhook-signature");
  if (!/^(0|[1-9][0-9]{0,14})$/.test(timestamp)) {
    throw new WebhookError("headers", "webhook-timestamp is not whole seconds since 1970");
  }
  const age = (options.now ?? Date.now()) / 1000 - Number(timestamp);
  if (!(Math.abs(age) <= (options.tolerance ?? toleranceUsual))) {
    throw new WebhookError("timestamp", `the timestamp is ${Math.abs(Math.trunc(age))} s ${age > 0 ? "old" : "ahead"}: a replayed request, or a wrong clock`);
  }
  const message = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), typeof body === "string" ? Buffer.from(body) : body]);
  for (const one of signatures.split(" ").slice(0, signaturesMax)) {
    const [version, encoded] = one.split(",", 2);
    const signature = base64(encoded ?? "");
    if (signature !== undefined && matchers.some((m) => m.version === version && m.test(message, signature))) {
      return;
    }
  }
  throw new WebhookError("signature", "no signature matches: the key is another endpoint's or was rotated, or the body is not the raw one");
}

/** Verifies a request and reads the event in it. */
export function receive(body: string | Uint8Array, headers: RequestHeaders, key: string | readonly string[], options: VerifyOptions = {}): Event {
  verify(body, headers, key, options);
  try {
    return JSON.parse(typeof body === "string" ? body : Buffer.from(body).toString("utf8")) as Event;
  } catch {
    throw new WebhookError("body", "the body is not JSON");
  }
}

interface Matcher {
  version: "v1" | "v1a";
  test: (message: Buffer, signature: Buffer) => boolean;
}

function matcher(key: string): Matcher {
  if (key.startsWith("whsec_")) {
    const secret = base64(key.slice("whsec_".length));
    if (secret === undefined || secret.length < 24 || secret.length > 64) {
      throw new WebhookError("key", "the secret has to be whsec_ and 24 to 64 bytes in base64");
    }
    return {
      version: "v1",
      test: (message, signature) => {
        const want = createHmac("sha256", secret).update(message).digest();
        return signature.length === want.length && timingSafeEqual(signature, want);
      },
    };
  }
  if (key.startsWith("whpk_")) {
    return { version: "v1a", test: publicKeyOf(key).test };
  }
  throw new WebhookError("key", "a key starts with whsec_ or whpk_");
}

/** Reads an installation's public key. Its id is 16 digits of its hash, as receipts name it. */
export function publicKeyOf(key: string): { id: string; test: (message: Buffer, signature: Buffer) => boolean } {
  const raw = key.startsWith("whpk_") ? base64(key.slice("whpk_".length)) : undefined;
  if (raw === undefined || raw.length !== 32) {
    throw new WebhookError("key", "the public key has to be whpk_ and 32 bytes in base64");
  }
  const publicKey = createPublicKey({ key: Buffer.concat([ed25519Prefix, raw]), format: "der", type: "spki" });
  return {
    id: createHash("sha256").update(raw).digest("hex").slice(0, 16),
    test: (message, signature) => signature.length === 64 && verifySignature(null, message, publicKey, signature),
  };
}

function header(headers: RequestHeaders, name: string): string {
  let value: string | string[] | null | undefined;
  if (typeof (headers as Headers).get === "function") {
    value = (headers as Headers).get(name);
  } else {
    const all = headers as Record<string, string | string[] | undefined>;
    value = all[name] ?? all[Object.keys(all).find((k) => k.toLowerCase() === name) ?? name];
  }
  if (typeof value !== "string" || value === "") {
    throw new WebhookError("headers", `there is no ${name}, or more than one`);
  }
  return value;
}

/** base64 is strict: Buffer alone passes over what does not belong. */
function base64(text: string): Buffer | undefined {
  const raw = Buffer.from(text, "base64");
  return text !== "" && raw.toString("base64") === text ? raw : undefined;
}

/** base64url is as strict, and has no padding. */
export function base64url(text: string): Buffer | undefined {
  const raw = Buffer.from(text, "base64url");
  return text !== "" && raw.toString("base64url") === text ? raw : undefined;
}
