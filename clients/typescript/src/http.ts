import type { Code } from "./api.js";

/** How a client is made. */
export interface Options {
  /** Ends with the version, as in https://coffer.internal/v1. Plain http is taken for this machine alone, unless allowPlainHttp is set. */
  baseUrl: string;
  /** The organization's key. It moves money: it belongs on servers, never in a browser. */
  apiKey: string;
  /**
   * Takes a base URL with plain http to another machine; false unless given. Every
   * machine between reads the key, which moves money, and can change the answers: set it
   * inside a private network alone, as between the containers of one host.
   */
  allowPlainHttp?: boolean;
  /** How often a call that may be repeated is made at most; 4 unless given. */
  attempts?: number;
  /** How long one attempt waits for its answer, in milliseconds; 30000 unless given. */
  timeout?: number;
  /** What makes requests; the global fetch unless given. */
  fetch?: typeof globalThis.fetch;
}

/** What changes one call. */
export interface CallOptions {
  /** Ends the call. A payment that was under way may have taken effect: see CofferError.outcomeUnknown. */
  signal?: AbortSignal;
  /** Is told of the last answer. */
  onAnswer?: (answer: Answer) => void;
}

/** What an answer has beside its body. */
export interface Answer {
  status: number;
  headers: Headers;
  requestId: string | null;
  /** The idempotency key was known: nothing was done again. */
  replayed: boolean;
  /** How often the request was sent. */
  attempts: number;
}

/** Every error of a call. */
export class CofferError extends Error {
  override readonly name: string = "CofferError";
  /**
   * Nobody can tell yet whether the call took effect: make it again with the same
   * idempotencyKey. Where it is false, this call moved nothing.
   */
  readonly outcomeUnknown: boolean;

  constructor(message: string, outcomeUnknown: boolean, options?: ErrorOptions) {
    super(message, options);
    this.outcomeUnknown = outcomeUnknown;
  }
}

/** An answer of the service that is no success. */
export class Refusal extends CofferError {
  override readonly name = "Refusal";
  readonly status: number;
  /** A name for a program; empty for an answer that is not the service's own. */
  readonly code: Code;
  readonly requestId: string;
  readonly param: string | undefined;
  readonly retryable: boolean;
  /** Seconds that the answer asks to wait. */
  readonly retryAfter: number | undefined;
  /** The whole body: details, existingId, currentStatus, withdrawalId, providerMessage and what is added later. */
  readonly body: Record<string, unknown>;

  constructor(where: string, status: number, headers: Headers, body: Record<string, unknown>, outcomeUnknown: boolean) {
    const text = typeof body.error === "string" ? body.error : "an answer that is not the service's own";
    super(`${where}: ${status} ${String(body.code ?? "")}: ${text}`, outcomeUnknown);
    this.status = status;
    this.code = typeof body.code === "string" ? body.code : "";
    this.requestId = typeof body.requestId === "string" ? body.requestId : (headers.get("x-request-id") ?? "");
    this.param = typeof body.param === "string" ? body.param : undefined;
    this.retryable = body.retryable === true;
    this.body = body;
    const seconds = headers.get("retry-after");
    this.retryAfter = seconds !== null && /^[0-9]{1,6}$/.test(seconds) ? Number(seconds) : undefined;
  }
}

/** A call that got no answer, or none that can be read; cause says why. */
export class NoAnswer extends CofferError {
  override readonly name = "NoAnswer";
}

/** The answer 304 to a conditional read whose ETag still holds. */
export class NotModified extends CofferError {
  override readonly name = "NotModified";
}

/** One call of the document. */
export interface Call {
  method: string;
  path: string;
  repeat: "ALWAYS" | "WITH_KEY" | "NEVER";
  open?: boolean;
  body?: unknown;
  key?: string | null | undefined;
  query?: Record<string, string | number | boolean | Date | undefined>;
  headers?: Record<string, string | undefined>;
}

const attemptsUsual = 4;
const timeoutUsual = 30_000;
const pauseFirst = 250;
const pauseMax = 8_000;

/** Connection sends requests, and again where that can do no harm. */
export class Connection {
  readonly #base: string;
  readonly #key: string;
  readonly #attempts: number;
  readonly #timeout: number;
  readonly #fetch: typeof globalThis.fetch;

  constructor(options: Options) {
    const url = new URL(options.baseUrl);
    const here = ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname);
    const plain = here || options.allowPlainHttp === true;
    if (url.protocol !== "https:" && !(url.protocol === "http:" && plain)) {
      throw new TypeError(`the base URL has to be https, because the key would travel in plain text to ${url.host}; allowPlainHttp allows http inside a private network`);
    }
    if (url.username !== "" || url.search !== "" || url.hash !== "") {
      throw new TypeError("the base URL has to look like https://coffer.internal/v1");
    }
    if (!/^[!-~]+$/.test(options.apiKey)) {
      throw new TypeError("the API key is empty or has invalid characters");
    }
    this.#base = url.href.replace(/\/+$/, "");
    this.#key = options.apiKey;
    this.#attempts = Math.max(1, options.attempts ?? attemptsUsual);
    this.#timeout = options.timeout ?? timeoutUsual;
    this.#fetch = options.fetch ?? globalThis.fetch;
  }

  /** call makes a call until it is answered for good, and reads the answer. */
  async call<T>(call: Call, options: CallOptions): Promise<T> {
    const where = `${call.method} ${call.path}`;
    const reads = call.method === "GET";
    const may = call.repeat === "ALWAYS" || (call.repeat === "WITH_KEY" && typeof call.key === "string" && call.key !== "");
    const body = call.body === undefined ? undefined : JSON.stringify(call.body);
    let silent = false; // an earlier attempt had no answer
    let failed = false; // an earlier attempt had a 5xx
    for (let attempt = 1; ; attempt++) {
      let error: CofferError;
      let wait: number | undefined;
      try {
        const { response, text } = await this.#once(call, body, options.signal);
        options.onAnswer?.(answer(response, attempt));
        if (response.ok) {
          return (text === "" ? undefined : parse(where, text, !reads)) as T;
        }
        if (response.status === 304) {
          throw new NotModified(`${where}: not modified`, false);
        }
        if (response.status === 404 && call.method === "DELETE" && (silent || failed)) {
          return undefined as T; // it is gone: an attempt before did it
        }
        const problem = problemOf(text);
        failed ||= response.status >= 500;
        // What a request without its turn or key was told says nothing of the attempts
        // before; nor does any refusal of one that may still be at work.
        const blind = response.status === 429 || response.status === 401 || problem.code === "IP_NOT_ALLOWED";
        const unknown = !reads && (response.status >= 500 || silent || (failed && blind));
        const refusal = new Refusal(where, response.status, response.headers, problem, unknown);
        if (response.status < 500 && response.status !== 429) {
          throw refusal;
        }
        error = refusal;
        wait = refusal.retryAfter === undefined ? undefined : refusal.retryAfter * 1000;
      } catch (caught) {
        if (caught instanceof CofferError) {
          throw caught;
        }
        silent ||= !unsent(caught);
        error = new NoAnswer(`${where}: no answer`, !reads && (silent || failed), { cause: caught });
      }
      if (!may || attempt >= this.#attempts || options.signal?.aborted === true) {
        throw error;
      }
      if (wait === undefined) {
        const full = Math.min(pauseFirst * 2 ** (attempt - 1), pauseMax);
        wait = full / 2 + (Math.random() * full) / 2;
      }
      if (!(await pause(wait, options.signal))) {
        throw error;
      }
    }
  }

  /** stream opens an answer that is read while it arrives. It is sent once. */
  async stream(call: Call, options: CallOptions): Promise<ReadableStream<Uint8Array>> {
    const where = `${call.method} ${call.path}`;
    let response: Response;
    try {
      response = await this.#send({ ...call, headers: { ...call.headers, accept: "text/csv" } }, undefined, options.signal);
    } catch (cause) {
      throw new NoAnswer(`${where}: no answer`, false, { cause });
    }
    options.onAnswer?.(answer(response, 1));
    if (!response.ok || response.body === null) {
      throw new Refusal(where, response.status, response.headers, problemOf(await response.text()), false);
    }
    return response.body as ReadableStream<Uint8Array>;
  }

  async #once(call: Call, body: string | undefined, signal: AbortSignal | undefined): Promise<{ response: Response; text: string }> {
    const stop = new AbortController();
    const forward = () => stop.abort(signal?.reason);
    signal?.addEventListener("abort", forward, { once: true });
    if (signal?.aborted === true) {
      forward();
    }
    const timer = setTimeout(() => stop.abort(new Error(`no answer within ${this.#timeout} ms`)), this.#timeout);
    try {
      const response = await this.#send(call, body, stop.signal);
      return { response, text: await response.text() };
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", forward);
    }
  }

  #send(call: Call, body: string | undefined, signal: AbortSignal | undefined): Promise<Response> {
    const url = new URL(this.#base + call.path);
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined) {
        url.searchParams.set(name, value instanceof Date ? value.toISOString() : String(value));
      }
    }
    const headers = new Headers({ accept: "application/json", "user-agent": "coffer-typescript/1" });
    for (const [name, value] of Object.entries(call.headers ?? {})) {
      if (value !== undefined) {
        headers.set(name, value);
      }
    }
    if (call.open !== true) {
      headers.set("x-api-key", this.#key);
    }
    if (body !== undefined) {
      headers.set("content-type", "application/json");
    }
    // A redirect would carry the key to wherever it points.
    const init: RequestInit = { method: call.method, headers, redirect: "manual" };
    if (body !== undefined) {
      init.body = body;
    }
    if (signal !== undefined) {
      init.signal = signal;
    }
    return this.#fetch(url, init);
  }
}

function answer(response: Response, attempts: number): Answer {
  return {
    status: response.status,
    headers: response.headers,
    requestId: response.headers.get("x-request-id"),
    replayed: response.headers.get("idempotent-replayed") === "true",
    attempts,
  };
}

function parse(where: string, text: string, unknown: boolean): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    // It was taken, and yet the caller has nothing to hold on to.
    throw new NoAnswer(`${where}: the answer cannot be read`, unknown, { cause });
  }
}

function problemOf(text: string): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null && !Array.isArray(body)) {
      return body as Record<string, unknown>;
    }
  } catch {
    // A proxy wrote it; the status says enough.
  }
  return {};
}

/** unsent tells errors of requests that never left: no connection was made. */
function unsent(error: unknown): boolean {
  for (let e = error; e instanceof Error; e = e.cause) {
    const code = (e as { code?: unknown }).code;
    if (code === "ECONNREFUSED" || code === "ENOTFOUND" || code === "EAI_AGAIN" || code === "UND_ERR_CONNECT_TIMEOUT") {
      return true;
    }
  }
  return false;
}

/** pause waits, and tells whether it did to the end. */
function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const stop = () => {
      clearTimeout(timer);
      resolve(false);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve(true);
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** segment is a value as a part of a path. One that would change the path itself is refused. */
export function segment(name: string, value: string): string {
  if (value === "" || value === "." || value === "..") {
    throw new TypeError(`${name} is ${JSON.stringify(value)}; nothing was sent`);
  }
  return encodeURIComponent(value);
}

/** each walks the pages of a list. */
export async function* each<T>(
  cursor: string | undefined,
  page: (cursor: string | undefined) => Promise<{ data: T[]; nextCursor: string | null }>,
): AsyncGenerator<T, void, undefined> {
  for (;;) {
    const { data, nextCursor } = await page(cursor);
    yield* data;
    if (nextCursor === null) {
      return;
    }
    cursor = nextCursor;
  }
}
