// Plays an integrator against a local world: COFFER_LOCAL names its description and
// COFFER_PROGRAM the program whose faucet pays. internal/testing/trial/integrate starts both.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { dirname } from "node:path";
import test from "node:test";
import { promisify } from "node:util";
import { Coffer, type Event, receive, Refusal, units, verify } from "../src/index.js";

const patience = 120_000;

async function until<T>(what: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  const end = Date.now() + patience;
  for (;;) {
    const found = await look();
    if (found !== undefined) {
      return found;
    }
    assert.ok(Date.now() < end, `waited until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

test("a customer pays in and is paid out, told by webhooks that verify", async () => {
  const file = process.env.COFFER_LOCAL;
  const program = process.env.COFFER_PROGRAM;
  assert.ok(file !== undefined && program !== undefined, "go test ./internal/testing/trial/integrate runs this test, with a world for it");
  const world = JSON.parse(await readFile(file, "utf8")) as { baseUrl: string; apiKey: string };
  const coffer = new Coffer({ baseUrl: world.baseUrl, apiKey: world.apiKey });
  const { keys } = await coffer.listWebhookKeys();
  const publicKey = keys[0] ?? "";

  let secret = "";
  const events: Event[] = [];
  let trouble: unknown;
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) {
      parts.push(part as Buffer);
    }
    const body = Buffer.concat(parts);
    try {
      verify(body, request.headers, publicKey);
      events.push(receive(body, request.headers, secret));
      response.writeHead(204).end();
    } catch (error) {
      trouble = error;
      response.writeHead(401).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const address = server.address();
    assert.ok(typeof address === "object" && address !== null);
    const endpoint = await coffer.createWebhookEndpoint({ url: `http://127.0.0.1:${address.port}/hooks` });
    secret = endpoint.secret;

    const { data: mints } = await coffer.listMints({ symbol: "USDC" });
    const usdc = mints[0];
    assert.ok(usdc !== undefined);
    const customerId = "a customer/of TypeScript";
    const deposit = await coffer.createDepositAddress({ mintId: usdc.id, customerId });
    assert.deepEqual(await coffer.createDepositAddress({ mintId: usdc.id, customerId }), deposit);
    await promisify(execFile)(program, ["local", "faucet", "--mint", String(usdc.id), "--to", deposit.address, "--amount", "25"], { cwd: dirname(dirname(file)) });

    const told = await until("CUSTOMER_DEPOSIT arrives", () => {
      assert.equal(trouble, undefined);
      return events.find((e) => e.type === "CUSTOMER_DEPOSIT" && e.data.customerId === customerId);
    });
    assert.ok(told.type === "CUSTOMER_DEPOSIT");
    assert.deepEqual([told.data.amount, told.data.isFlagged, told.data.status], [units("25", usdc.decimals), false, "CREDITED"]);
    assert.equal((await coffer.getDeposit(told.data.depositId)).txHash, told.data.txHash);
    const { data: balances } = await coffer.listCustomerBalances(customerId);
    assert.deepEqual(balances.map((b) => [b.mintId, b.available]), [[usdc.id, "25000000"]]);

    const payout = { mintId: usdc.id, customerId, amount: "10000000", toAddress: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F", idempotencyKey: "typescript-1" };
    const first = await coffer.createWithdrawal(payout);
    let replayed = false;
    const again = await coffer.createWithdrawal(payout, { onAnswer: (answer) => (replayed = answer.replayed) });
    assert.deepEqual([again.withdrawalId, replayed], [first.withdrawalId, true]);
    await assert.rejects(coffer.createWithdrawal({ ...payout, amount: "10000001" }), (e) => e instanceof Refusal && e.code === "IDEMPOTENCY_CONFLICT" && e.body.existingId === first.withdrawalId);
    await assert.rejects(coffer.createWithdrawal({ ...payout, amount: "99000000", idempotencyKey: "typescript-2" }), (e) => e instanceof Refusal && e.code === "INSUFFICIENT_BALANCE" && !e.outcomeUnknown);
    await until("the payment is final", async () => ((await coffer.getWithdrawal(first.withdrawalId)).status === "COMPLETED" ? true : undefined));
    await until("CUSTOMER_WITHDRAW arrives", () => events.find((e) => e.type === "CUSTOMER_WITHDRAW" && e.data.withdrawalId === first.withdrawalId));

    const mine: string[] = [];
    for await (const one of coffer.deposits({ customerId, limit: 1 })) {
      mine.push(one.depositId);
    }
    assert.deepEqual(mine, [told.data.depositId]);
    const sequences: number[] = [];
    for await (const one of coffer.events({ limit: 2 })) {
      sequences.push(one.sequence ?? 0);
    }
    assert.deepEqual(sequences, sequences.map((_, i) => i + 1), "the feed has no gap");
    await coffer.deleteWebhookEndpoint(endpoint.endpointId);
  } finally {
    server.close();
  }
});
