package integrate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The client is installed as a backend in another repository does it, from an archive and from the
// folder, and works at its first import. The compiler is the repository's; npm asks no registry.
func TestTheTypeScriptClientInstallsOutsideTheRepository(t *testing.T) {
	t.Parallel()
	own, err := filepath.Abs(typescript)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(own, "node_modules", "typescript")); err != nil {
		t.Fatalf("the compiler is missing (%v): run scripts/setup --test", err)
	}
	run := func(dir, name string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir, c.Env = dir, append(
			os.Environ(), "npm_config_offline=true", "npm_config_audit=false", "npm_config_fund=false",
			"npm_config_update_notifier=false",
		)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	// The folder after a clone, with the compiler that setup installs.
	copied := func() string {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "client")
		for _, part := range []string{"src", "test", "scripts"} {
			if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(own, part))); err != nil {
				t.Fatal(err)
			}
		}
		for _, file := range []string{"package.json", "package-lock.json", "tsconfig.json", "README.md"} {
			b, err := os.ReadFile(filepath.Join(own, file))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), b, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(filepath.Join(own, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	backend := func(what, install string) {
		t.Helper()
		dir := t.TempDir()
		const program = `import { Coffer, receive, units } from "@cofferpay/client";
const coffer = new Coffer({ baseUrl: "http://coffer:8080/v1", apiKey: "ck_secret", allowPlainHttp: true });
console.log(typeof coffer.createWithdrawal, typeof receive, units("12.5", 6));
`
		for file, text := range map[string]string{
			"package.json": `{"name": "backend", "private": true, "type": "module"}`, "backend.js": program,
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		run(dir, "npm", "install", install)
		if got := run(dir, "node", "backend.js"); got != "function function 12500000\n" {
			t.Errorf("%s: got %q", what, got)
		}
	}
	packed := copied()
	run(packed, "npm", "pack")
	archives, err := filepath.Glob(filepath.Join(packed, "*.tgz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("npm pack: got %v %v, want one archive", archives, err)
	}
	backend("from the archive", archives[0])
	backend("from the folder", copied())
}
