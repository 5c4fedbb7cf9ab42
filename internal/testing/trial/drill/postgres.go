package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cofferpay/coffer/internal/platform/pg/local"
)

// backupMethod is a way to back up a cluster and to restore it, as in the runbook.
type backupMethod interface {
	backUpCluster(ctx context.Context, h *drillEnv, folder string) error
	// restoreCluster starts when the server is stopped and its data is moved away. It leaves the
	// server running.
	restoreCluster(ctx context.Context, h *drillEnv, folder string) error
}

// dataDir is the folder of the server's data, DATA in the runbook.
func (h *drillEnv) dataDir() string { return filepath.Join(h.world.DatabaseCluster().Dir(), "data") }

// runTool runs one of PostgreSQL's programs as the user of credential; nil: the trial's own user.
func runTool(ctx context.Context, credential *syscall.Credential, name string, args ...string) error {
	bin, err := local.FindBinaries()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return runQuietly(cmd)
}

func runQuietly(cmd *exec.Cmd) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &output)
	}
	return nil
}

// fileOwner returns the owner of the server's files: the server refuses to run as root.
func fileOwner(path string) (*syscall.Credential, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return nil, nil
	}
	return &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}, nil
}

// baseBackup is pg_basebackup with the write-ahead log.
type baseBackup struct{}

func (baseBackup) backUpCluster(ctx context.Context, h *drillEnv, folder string) error {
	return runTool(ctx, nil, "pg_basebackup", "--dbname", h.world.DatabaseCluster().SuperURL(""), "--pgdata", folder,
		"--format", "tar", "--wal-method", "stream", "--checkpoint", "fast")
}

func (baseBackup) restoreCluster(ctx context.Context, h *drillEnv, folder string) error {
	wal := filepath.Join(h.dataDir(), "pg_wal")
	for _, part := range [][]string{{"base.tar", h.dataDir()}, {"pg_wal.tar", wal}} {
		if err := os.MkdirAll(part[1], 0o700); err != nil {
			return err
		}
		if err := runQuietly(
			exec.CommandContext(ctx, "tar", "-xf", filepath.Join(folder, part[0]), "-C", part[1]),
		); err != nil {
			return err
		}
	}
	credential, err := fileOwner(h.world.DatabaseCluster().Dir())
	if err != nil {
		return err
	}
	if credential != nil {
		if err := runQuietly(exec.CommandContext(
			ctx, "chown", "-R", fmt.Sprintf("%d:%d", credential.Uid, credential.Gid), h.dataDir(),
		)); err != nil {
			return err
		}
	}
	return h.world.DatabaseCluster().Restart(ctx)
}

// dump is pg_dump with the roles, restored into an empty cluster.
type dump struct{}

func (dump) backUpCluster(ctx context.Context, h *drillEnv, folder string) error {
	super := h.world.DatabaseCluster().SuperURL
	return errors.Join(
		os.Mkdir(folder, 0o700),
		runTool(
			ctx, nil, "pg_dumpall", "--dbname", super(""), "--roles-only", "--file", filepath.Join(folder, "roles.sql"),
		),
		runTool(
			ctx, nil, "pg_dump", "--dbname", super(local.Database), "--format", "custom", "--file",
			filepath.Join(folder, "coffer.dump"),
		),
	)
}

func (dump) restoreCluster(ctx context.Context, h *drillEnv, folder string) error {
	cluster := h.world.DatabaseCluster()
	super, err := url.Parse(cluster.SuperURL(""))
	if err != nil {
		return err
	}
	password, _ := super.User.Password()
	credential, err := fileOwner(cluster.Dir())
	if err != nil {
		return err
	}
	secret := filepath.Join(cluster.Dir(), "secret")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(secret)
	if credential != nil {
		if err := os.Chown(secret, int(credential.Uid), int(credential.Gid)); err != nil {
			return err
		}
	}
	err = runTool(ctx, credential, "initdb", "--pgdata", h.dataDir(), "--username", super.User.Username(), "--pwfile",
		secret,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--data-checksums")
	if err != nil {
		return err
	}
	if err := cluster.Restart(ctx); err != nil {
		return err
	}
	// The roles file also creates the superuser, which exists already: that one line fails.
	return errors.Join(
		runTool(
			ctx, nil, "psql", "--dbname", cluster.SuperURL(""), "--quiet", "--file", filepath.Join(folder, "roles.sql"),
		),
		runTool(ctx, nil, "createdb", "--maintenance-db", cluster.SuperURL(""), "--owner", local.Owner, local.Database),
		runTool(
			ctx, nil, "pg_restore", "--exit-on-error", "--dbname", cluster.SuperURL(local.Database),
			filepath.Join(folder, "coffer.dump"),
		),
	)
}

// restoreBackup stops the server, moves its data away and restores a backup.
func (h *drillEnv) restoreBackup(ctx context.Context, k backupMethod, folder string) error {
	if err := h.world.DatabaseCluster().Stop(); err != nil {
		return err
	}
	for n := 1; ; n++ {
		lost := fmt.Sprintf("%s.lost%d", h.dataDir(), n)
		if _, err := os.Stat(lost); errors.Is(err, os.ErrNotExist) {
			if err := os.Rename(h.dataDir(), lost); err != nil {
				return err
			}
			return k.restoreCluster(ctx, h, folder)
		}
	}
}
