// Runs surfpool and says where it listens. Arguments: the addon's folder, the
// faucet's secret key. Blocks are made by whoever asks; see blocks.go for the time.
const [addon, key] = process.argv.slice(1);
const { Surfnet } = require(addon);
const net = Surfnet.startWithConfig({
  offline: true, blockProductionMode: 'manual', slotTimeMs: 600, airdropSol: 0, payerSecretKey: JSON.parse(key),
});
console.log(JSON.stringify({ rpcURL: net.rpcUrl, wsURL: net.wsUrl }));
setInterval(() => net.drainEvents(), 1000); // or they pile up
