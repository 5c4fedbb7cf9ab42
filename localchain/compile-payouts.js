// Compiles the payout contract and writes payouts.json next to its source, in
// internal/chain/evm/payoutcontract. With --check it writes nothing and fails if
// the committed file differs from what the compiler makes.
//
// The address of the contract follows from this bytecode, on every chain. Another
// compiler or another setting makes another contract at another address, which the
// signers of running installations do not know.
//
// Run by `make generate`; with --check by hand, when the compiler is installed.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const solc = require('solc');

const folder = path.join(__dirname, '..', 'internal', 'chain', 'evm', 'payoutcontract');
const output = path.join(folder, 'payouts.json');

const settings = {
  // The oldest rules that every chain of the service has had for years.
  evmVersion: 'paris',
  viaIR: true,
  optimizer: { enabled: true, runs: 1000000 },
  // Without metadata the bytecode depends on the code alone.
  metadata: { bytecodeHash: 'none', appendCBOR: false },
  outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object', 'evm.deployedBytecode.object'] } },
};
const sources = { 'Payouts.sol': { content: fs.readFileSync(path.join(folder, 'Payouts.sol'), 'utf8') } };

const result = JSON.parse(solc.compile(JSON.stringify({ language: 'Solidity', sources, settings })));
if (result.errors && result.errors.length > 0) {
  for (const p of result.errors) process.stderr.write(p.formattedMessage + '\n');
  process.exit(1);
}
const { abi, evm } = result.contracts['Payouts.sol'].Payouts;
const text = `{
  "compiler": ${JSON.stringify('solc ' + solc.version())},
  "abi": [
${abi.map((entry) => '    ' + JSON.stringify(entry)).join(',\n')}
  ],
  "initCode": "0x${evm.bytecode.object}",
  "runtimeCode": "0x${evm.deployedBytecode.object}"
}
`;
if (process.argv.includes('--check')) {
  if (fs.readFileSync(output, 'utf8') !== text) {
    process.stderr.write('payouts.json is not what the compiler makes of Payouts.sol\n');
    process.exit(1);
  }
  process.stdout.write('payouts.json is what the compiler makes of Payouts.sol\n');
} else {
  fs.writeFileSync(output, text);
  process.stdout.write(`compiled the payout contract with solc ${solc.version()}\n`);
}
