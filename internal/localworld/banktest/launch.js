// Runs a bank and does what it is told, one line of JSON after the other. Argument: the addon.
const { start, Account } = require(process.argv[1]);
const bytes = (text) => Buffer.from(text ?? '', 'base64');
const does = {
  blockhash: async (c) => (await c.banksClient.getLatestBlockhash()).blockhash,
  next: async (c) => c.warpToSlot((await c.banksClient.getSlot()) + 1n),
  set: async (c, { at, lamports, owner, data }) =>
    c.setAccount(bytes(at), new Account(BigInt(lamports), bytes(data), bytes(owner), false, 0n)),
  get: async (c, { at }) => {
    const a = await c.banksClient.getAccount(bytes(at));
    return a && { lamports: Number(a.lamports), data: Buffer.from(a.data).toString('base64') };
  },
  send: async (c, { raw }) => {
    const blocks = [await does.blockhash(c)];
    let ended = false;
    const run = c.banksClient.tryProcessLegacyTransaction(bytes(raw)).finally(() => { ended = true; });
    // On a busy machine more than one block passes meanwhile.
    while (!ended) blocks.push(await does.blockhash(c));
    const { result, meta } = await run;
    return { err: result ?? '', ran: meta !== null, blocks: [...blocks, await does.blockhash(c)] };
  },
};
(async () => {
  const bank = await start([], []);
  // After that: a line that comes before somebody listens is lost.
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    const { what, ...args } = JSON.parse(line);
    let answer;
    try {
      answer = { result: (await does[what](bank, args)) ?? null };
    } catch (e) {
      answer = { error: String(e) };
    }
    console.log(JSON.stringify(answer));
  }
  process.exit(0);
})();
