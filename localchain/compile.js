// Compiles the contracts of the local world and writes their ABI and bytecode
// to internal/localworld/evmtoken/contracts.json, with the hash of what they
// were made from. A test of that package compares the hash with the sources,
// so that nobody needs the compiler unless a contract changes.
//
// Run by `make generate`.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const solc = require('solc');

const folder = path.join(__dirname, 'contracts');
const output = path.join(__dirname, '..', 'internal', 'localworld', 'evmtoken', 'contracts.json');

const settings = {
  evmVersion: 'cancun',
  optimizer: { enabled: true, runs: 200 },
  // Without the metadata hash the bytecode depends on the code alone, not on
  // comments or the folder that it was compiled in.
  metadata: { bytecodeHash: 'none', appendCBOR: false },
  outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
};

const names = fs.readdirSync(folder).filter((name) => name.endsWith('.sol')).sort();
const sources = {};
const hash = crypto.createHash('sha256');
for (const name of names) {
  const content = fs.readFileSync(path.join(folder, name), 'utf8');
  sources[name] = { content };
  hash.update(`${name}\0${content}\0`);
}
hash.update(`compile.js\0${fs.readFileSync(__filename, 'utf8')}\0`);

const result = JSON.parse(solc.compile(JSON.stringify({ language: 'Solidity', sources, settings })));
const problems = (result.errors || []).filter((e) => !e.formattedMessage.includes('"selfdestruct" has been deprecated'));
if (problems.length > 0) {
  for (const p of problems) process.stderr.write(p.formattedMessage + '\n');
  process.exit(1);
}

const contracts = {};
for (const name of names) {
  for (const [contract, made] of Object.entries(result.contracts[name] || {})) {
    const bytecode = made.evm.bytecode.object;
    if (bytecode === '') continue; // abstract, or an interface
    contracts[contract] = { abi: made.abi, bytecode: '0x' + bytecode };
  }
}

// One line for each entry of an ABI keeps both the file and its diffs short.
const text = Object.keys(contracts).sort().map((name) => {
  const { abi, bytecode } = contracts[name];
  const entries = abi.map((entry) => '        ' + JSON.stringify(entry)).join(',\n');
  return `    ${JSON.stringify(name)}: {\n      "abi": [\n${entries}\n      ],\n      "bytecode": "${bytecode}"\n    }`;
}).join(',\n');

fs.mkdirSync(path.dirname(output), { recursive: true });
fs.writeFileSync(output, `{
  "compiler": ${JSON.stringify('solc ' + solc.version())},
  "sources": "${hash.digest('hex')}",
  "contracts": {
${text}
  }
}
`);
process.stdout.write(`compiled ${Object.keys(contracts).length} contracts with solc ${solc.version()}\n`);
