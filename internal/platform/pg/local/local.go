// Package local runs a private PostgreSQL server in a data directory. It serves programs that were
// given no database URL, and tests.
//
// The server never:
//   - listens beyond loopback
//   - runs as root
//   - outlives its parent process
//   - trades durability for speed
//
// A crash leaves the data directory, which the next Start recovers. The server ends with the
// program, however that ends (see watchScript).
package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/platform/freeport"
)

// Names of the database and the roles inside a cluster.
const (
	Database  = "coffer"
	Owner     = "coffer_owner" // owns Database, may create roles
	Login     = "coffer"       // what the program logs in as; owns nothing, inherits nothing
	superuser = "postgres"
)

const (
	startMax      = 60 * time.Second // crash recovery included
	stopMax       = 60 * time.Second // fast shutdown, its checkpoint included
	stopHarderMax = 10 * time.Second // after each escalation
	noticeMax     = 2 * time.Second  // for a server to notice that its program has died
	portTries     = 5
	socketPathMax = 90 // bytes; the kernel allows 107 on Linux and 103 on macOS, and the name is appended
	configName    = "coffer.json"
)

// Options configure a cluster. Only Dir is required.
type Options struct {
	// Dir is created when it is missing. If the program runs as root, an unprivileged user gets the
	// directory and must be able to reach it. If that is impossible, the cluster goes under
	// os.TempDir and a warning says so (see Cluster.Dir).
	Dir string
	// Ephemeral removes Dir when the cluster stops or the program ends.
	Ephemeral bool
	// TCP makes the server listen on 127.0.0.1 too, with a password. Port 0 takes a free port.
	TCP  bool
	Port int
	// ReplicaOf makes a new cluster a streaming replica of a running one, which must have wal_level = replica, two free
	// max_wal_senders, and no larger limits than this one. It has the roles and passwords of the other.
	ReplicaOf *Cluster
	// Settings are added to the server's command line.
	Settings map[string]string
	// Log receives warnings; nil means slog.Default.
	Log *slog.Logger
}

// Cluster is a running server. Its methods are not safe for concurrent use, except Done.
type Cluster struct {
	opts   Options
	bin    string
	dir    string // holds data/, the socket, the log, the credentials
	socket string // directory of the unix socket
	cred   *syscall.Credential
	conf   config

	port int
	cmd  *exec.Cmd
	// The server stops when this closes, which the death of this process does too.
	tether io.WriteCloser
	// Dir is removed when this closes, which the death of this process does too.
	janitor     io.WriteCloser
	waitJanitor func() error
	exited      chan struct{}
}

// config holds the passwords, which must survive a restart.
type config struct {
	Super string `json:"super"`
	Owner string `json:"owner"`
	Login string `json:"login"`
}

// Start creates the cluster when Dir is empty and starts the server. It returns when the server
// answers.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Dir == "" {
		return nil, errors.New("start a private PostgreSQL: no directory given")
	}
	bin, err := FindBinaries()
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: opts, bin: bin}
	if err := c.prepareDir(ctx); err != nil {
		c.removeDir()
		return nil, fmt.Errorf("start a private PostgreSQL in %s: %w", opts.Dir, err)
	}
	if err := c.launchServer(ctx); err != nil {
		c.removeDir()
		return nil, fmt.Errorf("start a private PostgreSQL in %s: %w", c.dir, err)
	}
	if err := c.createRoles(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("set up the private PostgreSQL in %s: %w", c.dir, err)
	}
	return c, nil
}

// Dir returns the directory that the cluster really uses; see Options.Dir.
func (c *Cluster) Dir() string { return c.dir }

// Port returns the TCP port on 127.0.0.1, or 0.
func (c *Cluster) Port() int {
	if !c.opts.TCP {
		return 0
	}
	return c.port
}

// URL returns the URL by which the program's role logs in to the named database. An empty name
// means Database.
func (c *Cluster) URL(database string) string { return c.roleURL(Login, c.conf.Login, database) }

// OwnerURL returns the URL by which the owner of Database logs in.
func (c *Cluster) OwnerURL(database string) string { return c.roleURL(Owner, c.conf.Owner, database) }

// SuperURL returns the URL of the superuser. Only tests and first aid may use it.
func (c *Cluster) SuperURL(database string) string {
	if database == "" {
		database = "postgres"
	}
	return c.roleURL(superuser, c.conf.Super, database)
}

// Done returns a channel that closes when the server process ends, whether it was stopped or died.
func (c *Cluster) Done() <-chan struct{} { return c.exited }

// Stop shuts the server down: it disconnects clients and writes a checkpoint. It waits for the end,
// removes an ephemeral directory, and may be called again.
func (c *Cluster) Stop() error {
	err := c.stopServer()
	if c.socket != c.dir {
		_ = os.RemoveAll(c.socket) // Empty by now; the next Start makes it again.
	}
	return errors.Join(err, c.removeDir())
}

// Kill ends the server as a power cut would. The directory stays for Restart.
func (c *Cluster) Kill() error {
	pid, err := c.readPID()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the server: %w", err)
	}
	<-c.exited
	c.tether.Close()
	// The server's child processes notice within moments; a new server must not meet them.
	return c.waitForOrphans()
}

// Restart starts the server again on the same port, after Kill or after the server ended. It shuts
// down a running server first.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.stopServer(); err != nil {
		return err
	}
	return c.launchServer(ctx)
}

func (c *Cluster) roleURL(role, password, database string) string {
	if database == "" {
		database = Database
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, password), Path: "/" + database}
	q := url.Values{}
	if c.opts.TCP {
		u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port))
		q.Set("sslmode", "disable")
	} else {
		q.Set("host", c.socket)
		q.Set("port", strconv.Itoa(c.port))
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// binaryPatterns are the directories in which packagers install several versions of the server.
var binaryPatterns = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// FindBinaries returns the directory that holds initdb and postgres: on PATH, or where Debian, Red
// Hat and Homebrew install them. The newest version wins outside PATH.
func FindBinaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil && hasBinaries(filepath.Dir(real)) {
			return filepath.Dir(real), nil
		}
	}
	if found := binariesIn(binaryPatterns); len(found) > 0 {
		return found[0], nil
	}
	return "", errors.New("no PostgreSQL server found on PATH or in the usual places: " +
		"install version 15 or later (Debian and Ubuntu: apt install postgresql; macOS: brew install postgresql@17), " +
		"or give the URL of a running server")
}

// binariesFor finds the binaries that can open data of a version. An upgrade of the system may
// install a newer server, which cannot read the files of the old one.
func binariesFor(version string, first string, patterns []string) (string, error) {
	for _, bin := range append([]string{first}, binariesIn(patterns)...) {
		output, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
		fields := strings.Fields(string(output)) // postgres (PostgreSQL) 15.18 (Debian ...)
		if err == nil && len(fields) >= 3 && (fields[2] == version || strings.HasPrefix(fields[2], version+".")) {
			return bin, nil
		}
	}
	return "", fmt.Errorf(
		"the data is of PostgreSQL %s, which is not installed: install it, or move the data with pg_upgrade", version,
	)
}

// binariesIn lists the usable directories that match, the newest version first.
func binariesIn(patterns []string) []string {
	var found []string
	for _, pattern := range patterns {
		matches, _ := filepath.Glob(pattern) // The patterns are well formed.
		found = append(found, matches...)
	}
	found = slices.DeleteFunc(found, func(dir string) bool { return !hasBinaries(dir) })
	slices.SortFunc(found, func(a, b string) int { return versionIn(b) - versionIn(a) })
	return found
}

func hasBinaries(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

// versionIn reads the last number of a path such as /usr/lib/postgresql/15/bin.
func versionIn(path string) int {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' }
	end := strings.LastIndexFunc(path, isDigit) + 1
	start := strings.LastIndexFunc(path[:end], func(r rune) bool { return !isDigit(r) }) + 1
	n, _ := strconv.Atoi(path[start:end]) // No digits, or too many: sorts last.
	return n
}

// prepareDir decides which user runs the server and where, and creates the cluster if there is
// none.
func (c *Cluster) prepareDir(ctx context.Context) error {
	dir, err := filepath.Abs(c.opts.Dir)
	if err != nil {
		return err
	}
	c.dir = dir
	if os.Geteuid() == 0 {
		if c.cred, err = unprivilegedUser(); err != nil {
			return err
		}
		if blocked := blockingParent(dir, int(c.cred.Uid)); blocked != "" {
			// The name is derived from the wanted directory, so the same directory always gets the
			// same cluster.
			sum := sha256.Sum256([]byte(dir))
			c.dir = filepath.Join(os.TempDir(), "coffer-pg-"+hex.EncodeToString(sum[:6]))
			c.opts.Log.Warn("PostgreSQL cannot run as root and its user cannot reach the data directory; using a "+
				"temporary one",
				"wanted", dir, "blocked_by", blocked, "using", c.dir)
		}
	}
	if err := c.makeDir(); err != nil {
		return err
	}
	if err := c.chooseSocketDir(); err != nil {
		return err
	}
	if c.opts.Ephemeral {
		if err := c.startJanitor(); err != nil {
			return err
		}
	}
	version, err := os.ReadFile(c.dirPath("data", "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) && c.opts.ReplicaOf != nil {
		return c.copyCluster(ctx, c.opts.ReplicaOf)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return c.initCluster(ctx)
	}
	if err != nil {
		return fmt.Errorf("read the cluster's version: %w", err)
	}
	if c.bin, err = binariesFor(strings.TrimSpace(string(version)), c.bin, binaryPatterns); err != nil {
		return err
	}
	content, err := os.ReadFile(c.dirPath(configName))
	if err != nil {
		return fmt.Errorf("read the cluster's passwords: %w", err)
	}
	if err := json.Unmarshal(content, &c.conf); err != nil {
		return fmt.Errorf("read the cluster's passwords: %w", err)
	}
	return nil
}

func (c *Cluster) dirPath(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}

// unprivilegedUser returns the user as which root starts the server.
func unprivilegedUser() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: false}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root and there is no user postgres or nobody to run it as: " +
		"run this program as an ordinary user")
}

// blockingParent returns the first parent that the user cannot pass through, or "".
func blockingParent(dir string, uid int) string {
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err == nil {
			stat, ok := info.Sys().(*syscall.Stat_t)
			owned := ok && int(stat.Uid) == uid && info.Mode()&0o100 != 0
			if info.Mode()&0o001 == 0 && !owned {
				return parent
			}
		}
		if parent == filepath.Dir(parent) {
			return ""
		}
	}
}

// makeDir creates the directory and gives it to the server's user. It refuses a directory of
// another user, because the name under the temporary directory can be guessed.
func (c *Cluster) makeDir() error {
	if err := os.MkdirAll(filepath.Dir(c.dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(c.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(c.dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return fmt.Errorf("%s is not a directory", c.dir)
	}
	owner := int(stat.Uid)
	if owner != os.Geteuid() && (c.cred == nil || owner != int(c.cred.Uid)) {
		return fmt.Errorf("%s belongs to another user (id %d)", c.dir, owner)
	}
	if err := os.Chmod(c.dir, 0o700); err != nil {
		return err
	}
	return c.chownToServer(c.dir)
}

func (c *Cluster) chownToServer(path string) error {
	if c.cred == nil {
		return nil
	}
	return os.Chown(path, int(c.cred.Uid), int(c.cred.Gid))
}

// chooseSocketDir keeps the socket in the cluster's directory, unless the path is longer than a
// socket address may be.
func (c *Cluster) chooseSocketDir() error {
	if len(c.dir) <= socketPathMax-len("/.s.PGSQL.65535") {
		c.socket = c.dir
		return nil
	}
	sum := sha256.Sum256([]byte(c.dir))
	c.socket = filepath.Join(os.TempDir(), "coffer-sock-"+hex.EncodeToString(sum[:6]))
	if err := os.Mkdir(c.socket, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return c.chownToServer(c.socket)
}

// initCluster runs initdb in a temporary directory next to the final one and renames it. A crash
// therefore leaves either no cluster or a complete one. The passwords are written first.
func (c *Cluster) initCluster(ctx context.Context) error {
	c.conf = config{Super: rand.Text(), Owner: rand.Text(), Login: rand.Text()}
	content, err := json.Marshal(c.conf)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.dirPath(configName), content, 0o600); err != nil {
		return err
	}
	fresh := c.dirPath("data.new")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	pwfile := c.dirPath("pwfile")
	if err := os.WriteFile(pwfile, []byte(c.conf.Super+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(pwfile)
	if err := c.chownToServer(pwfile); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "initdb"),
		"--pgdata="+fresh, "--username="+superuser, "--pwfile="+pwfile, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--data-checksums")
	cmd.Dir = c.dir
	cmd.Env = serverEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.cred}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, lastLines(output))
	}
	return os.Rename(fresh, c.dirPath("data"))
}

// copyCluster copies a running cluster, which the copy then follows, and renames the copy when it is complete.
func (c *Cluster) copyCluster(ctx context.Context, primary *Cluster) error {
	c.conf = primary.conf
	content, err := json.Marshal(c.conf)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.dirPath(configName), content, 0o600); err != nil {
		return err
	}
	fresh := c.dirPath("data.new")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	host := primary.socket
	if primary.opts.TCP {
		host = "127.0.0.1"
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "pg_basebackup"), "--pgdata="+fresh, "--host="+host,
		"--port="+strconv.Itoa(primary.port), "--username="+superuser, "--checkpoint=fast", "--wal-method=stream",
		"--write-recovery-conf", "--no-sync")
	cmd.Dir = c.dir
	cmd.Env = append(serverEnv(), "PGPASSWORD="+c.conf.Super)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.cred}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, lastLines(output))
	}
	return os.Rename(fresh, c.dirPath("data"))
}

// launchServer starts the server and waits until it answers.
func (c *Cluster) launchServer(ctx context.Context) error {
	if err := c.clearStale(); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := c.launchOnce(ctx)
		if err == nil {
			return nil
		}
		if c.opts.TCP && c.opts.Port == 0 && try < portTries && strings.Contains(c.logTail(), "could not bind") {
			c.port = 0 // Another process took the free port before the server bound it.
			continue
		}
		return err
	}
}

func (c *Cluster) launchOnce(ctx context.Context) error {
	if c.port == 0 {
		port, err := c.choosePort()
		if err != nil {
			return err
		}
		c.port = port
	}
	settings := map[string]string{
		"port":                    strconv.Itoa(c.port),
		"listen_addresses":        "",
		"unix_socket_directories": c.socket,
		"unix_socket_permissions": "0700",
		"fsync":                   "on",
		"full_page_writes":        "on",
		"synchronous_commit":      "on",
		"logging_collector":       "off",
		"log_min_messages":        "warning",
		"log_min_error_statement": "panic",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		// As in every session of the service, for other clients.
		"jit": "off",
	}
	if c.opts.TCP {
		settings["listen_addresses"] = "127.0.0.1"
	}
	maps.Copy(settings, c.opts.Settings)
	args := []string{filepath.Join(c.bin, "postgres"), "-D", c.dirPath("data")}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}

	log, err := os.OpenFile(c.dirPath("log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := c.chownToServer(log.Name()); err != nil {
		return err
	}

	cmd := exec.Command("/bin/sh", append([]string{"-c", watchScript, "sh"}, args...)...)
	cmd.Dir = c.dir
	cmd.Env = serverEnv()
	cmd.Stdout, cmd.Stderr = log, log
	// The server gets a process group of its own. Ctrl-C at the terminal reaches only the program,
	// which stops the server once it needs it no more.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.cred, Setpgid: true}
	tether, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	c.cmd, c.tether = cmd, tether
	exited := make(chan struct{})
	c.exited = exited
	go func() {
		_ = cmd.Wait() // How it ended is in its log.
		close(exited)
	}()
	if err := c.waitReady(ctx); err != nil {
		return errors.Join(err, c.stopServer())
	}
	return nil
}

// watchScript is the parent of the server. Its standard input is a pipe whose other end only our
// program holds. When the program ends, in whatever way, the read ends too, and the script asks the
// server for a fast shutdown. It asks repeatedly, because a server that has only just started
// ignores the first request. Linux's parent-death signal would follow the thread that forked
// instead of the process, and macOS has none.
const watchScript = `
exec 3<&0 </dev/null
"$@" 3<&- &
server=$!
{ read -r _ <&3; while kill -INT $server; do sleep 0.1; done; } 2>/dev/null &
reader=$!
exec 3<&-
wait $server
status=$?
kill $reader 2>/dev/null
exit $status
`

// sweepScript removes a directory once its standard input ends. The server may still be
// writing its last files, so it tries for a while.
const sweepScript = `
read -r _
tries=0
while [ $tries -lt 200 ]; do
	rm -rf -- "$@" 2>/dev/null
	left=no
	for dir in "$@"; do [ -e "$dir" ] && left=yes; done
	[ $left = no ] && exit 0
	tries=$((tries + 1))
	sleep 0.1
done
exit 1
`

func (c *Cluster) startJanitor() error {
	args := []string{"-c", sweepScript, "sh", c.dir}
	if c.socket != c.dir {
		args = append(args, c.socket)
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the janitor: %w", err)
	}
	c.janitor, c.waitJanitor = stdin, cmd.Wait
	return nil
}

// removeDir removes an ephemeral directory.
func (c *Cluster) removeDir() error {
	if c.janitor == nil {
		return nil
	}
	c.janitor.Close()
	c.janitor = nil
	if err := c.waitJanitor(); err != nil {
		return fmt.Errorf("remove %s: %w", c.dir, err)
	}
	return nil
}

func (c *Cluster) choosePort() (int, error) {
	if c.opts.Port != 0 || !c.opts.TCP {
		// Without TCP the number only names the socket.
		if c.opts.Port == 0 {
			return 5432, nil
		}
		return c.opts.Port, nil
	}
	return freeport.FindPort()
}

// waitReady waits until the server answers a login.
func (c *Cluster) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		// The state file says "ready" before a login is worth a try. Each failed login would be a
		// line in the server's log.
		if c.stateReady() {
			conn, err := pgconn.Connect(ctx, c.SuperURL(""))
			if err == nil {
				return conn.Close(ctx)
			}
			// 57P03 means that the server still recovers, even if the state file of its previous
			// run says "ready".
			if refused, isPgErr := errors.AsType[*pgconn.PgError](err); isPgErr && refused.Code != "57P03" {
				return fmt.Errorf("log in: %w", err)
			}
		}
		select {
		case <-c.exited:
			return fmt.Errorf("the server ended at once:\n%s", c.logTail())
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w\n%s", ctx.Err(), c.logTail())
		case <-tick.C:
		}
	}
}

// stateReady reads the eighth line of postmaster.pid, as pg_ctl does.
func (c *Cluster) stateReady() bool {
	lines := c.pidFile()
	return len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready"
}

func (c *Cluster) pidFile() []string {
	content, err := os.ReadFile(c.dirPath("data", "postmaster.pid"))
	if err != nil {
		return nil
	}
	return strings.Split(string(content), "\n")
}

func (c *Cluster) readPID() (int, error) {
	lines := c.pidFile()
	if len(lines) == 0 {
		return 0, errors.New("the server is not running")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("postmaster.pid contains no process id: %q", lines[0])
	}
	return pid, nil
}

// stopServer ends the server: first by a fast shutdown, then by SIGQUIT and SIGKILL.
func (c *Cluster) stopServer() error {
	if c.tether == nil {
		return nil
	}
	c.tether.Close()
	if waitEnded(c.exited, stopMax) {
		return nil
	}
	pid, err := c.readPID()
	if err != nil {
		return err
	}
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		c.opts.Log.Warn("the private PostgreSQL does not stop", "pid", pid, "sending", sig.String())
		_ = syscall.Kill(pid, sig) // It may just have ended.
		if waitEnded(c.exited, stopHarderMax) {
			return nil
		}
	}
	return fmt.Errorf("the server (process %d) does not end", pid)
}

func waitEnded(ended <-chan struct{}, d time.Duration) bool {
	select {
	case <-ended:
		return true
	case <-time.After(d):
		return false
	}
}

// clearStale cleans up after a crash. It removes a pid file whose process is gone, and waits for a
// server that still shuts down because its parent has just died. It fails if another program runs
// the server.
func (c *Cluster) clearStale() error {
	noticeDeadline := time.Now().Add(noticeMax)
	deadline := time.Now().Add(stopMax)
	for {
		pid, err := c.readPID()
		if err != nil {
			return nil // No file, or none that names a process: postgres decides about it.
		}
		if syscall.Kill(pid, 0) != nil {
			return c.waitForOrphans()
		}
		if !c.isOwnServer(pid) {
			// The process id now belongs to another program. PostgreSQL would take that for a
			// running server if it belongs to the same user.
			return os.Remove(c.dirPath("data", "postmaster.pid"))
		}
		if c.stateReady() && time.Now().After(noticeDeadline) || time.Now().After(deadline) {
			return fmt.Errorf("another program runs this cluster (process %d)", pid)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// isOwnServer reports whether the process serves our data directory, as opposed to a foreign
// process with the same id. If it cannot find out, it answers true, to be safe.
func (c *Cluster) isOwnServer(pid int) bool {
	var commandLine []byte
	var err error
	if runtime.GOOS == "linux" {
		commandLine, err = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	} else {
		commandLine, err = exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	}
	return err != nil || bytes.Contains(commandLine, []byte(c.dirPath("data")))
}

// waitForOrphans waits until no process is left in the shared memory of a killed server. Such
// processes end by themselves once they notice. PostgreSQL makes the same check at start and
// refuses, where this function waits. On other systems than Linux the caller relies on that refusal
// and tries again.
func (c *Cluster) waitForOrphans() error {
	if runtime.GOOS != "linux" {
		return nil
	}
	deadline := time.Now().Add(stopHarderMax)
	for {
		if !c.hasOrphans() {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("processes of the killed server do not end")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// hasOrphans looks for processes that work in the data directory. PostgreSQL makes it the working
// directory of each of its processes.
func (c *Cluster) hasOrphans() bool {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == c.dirPath("data") {
			return true
		}
	}
	return false
}

// createRoles creates the database and the two roles. It skips what exists, so a run after a crash
// continues.
func (c *Cluster) createRoles(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.SuperURL(""))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, role := range []struct{ name, attributes, password string }{
		{Owner, "LOGIN CREATEROLE NOSUPERUSER NOBYPASSRLS", c.conf.Owner},
		{Login, "LOGIN NOINHERIT NOSUPERUSER NOBYPASSRLS", c.conf.Login},
	} {
		var exists bool
		if err := conn.QueryRow(
			ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, role.name,
		).Scan(&exists); err != nil {
			return err
		}
		if exists {
			continue
		}
		// The password is our own base32 text, which needs no quoting.
		if _, err := conn.Exec(
			ctx, fmt.Sprintf("CREATE ROLE %s %s PASSWORD '%s'", role.name, role.attributes, role.password),
		); err != nil {
			return fmt.Errorf("create the role %s: %w", role.name, err)
		}
	}
	var exists bool
	if err := conn.QueryRow(
		ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, Database,
	).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+Database+" OWNER "+Owner); err != nil {
			return fmt.Errorf("create the database: %w", err)
		}
	}
	return nil
}

// serverEnv returns the environment of the server's programs. It holds no variable that would
// change their behavior (PGDATA, PGPORT) and no secret.
func serverEnv() []string {
	env := []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH")}
	if path, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
		env = append(env, "LD_LIBRARY_PATH="+path)
	}
	return env
}

func (c *Cluster) logTail() string {
	content, err := os.ReadFile(c.dirPath("log"))
	if err != nil {
		return err.Error()
	}
	return lastLines(content)
}

func lastLines(output []byte) string {
	const linesMax = 12
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	if len(lines) > linesMax {
		lines = lines[len(lines)-linesMax:]
	}
	return strings.Join(lines, "\n")
}
