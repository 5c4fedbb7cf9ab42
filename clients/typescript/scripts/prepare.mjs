// Builds dist, for npm pack and for npm install of this folder. npm installs no compiler
// for a folder that another project depends on, so it is fetched here when it is missing.
import { spawnSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = join(dirname(fileURLToPath(import.meta.url)), "..");
const compiler = join(folder, "node_modules", "typescript", "bin", "tsc");

function run(program, args) {
  const { status, error } = spawnSync(program, args, { cwd: folder, stdio: "inherit" });
  if (error !== undefined) {
    throw error;
  }
  if (status !== 0) {
    process.exit(status ?? 1);
  }
}

if (!existsSync(compiler)) {
  run("npm", ["ci", "--ignore-scripts", "--include=dev", "--no-audit", "--no-fund"]);
}
rmSync(join(folder, "dist"), { recursive: true, force: true }); // nothing of a former build is packed
run(process.execPath, [compiler]);
