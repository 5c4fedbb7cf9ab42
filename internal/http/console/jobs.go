package console

import (
	"context"
	"net/url"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/jobcontrol"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/jobs"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// jobNumberMax bounds the numbers of jobs in a URL.
const jobNumberMax = 1<<53 - 1

// beforeParameter is where a list of numbered rows continues.
var beforeParameter = kernel.Parameter{Name: "before", Kind: kernel.NumberParameter, Max: jobNumberMax}

// beforeOf returns the number before which a list continues, and 0 for its beginning.
func beforeOf(r *pages.Request) int64 {
	n, err := strconv.ParseInt(r.Query[beforeParameter.Name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// numberedPaths returns the paths of the first and of the next page of a list of numbered rows.
func numberedPaths(r *pages.Request, lastID int64, hasMore bool) (first, following string) {
	query := url.Values{}
	for name, value := range r.Query {
		if name != beforeParameter.Name {
			query.Set(name, value)
		}
	}
	path := r.URL.EscapedPath()
	if beforeOf(r) != 0 {
		first = path + "?" + query.Encode()
	}
	if hasMore {
		query.Set(beforeParameter.Name, strconv.FormatInt(lastID, 10))
		following = path + "?" + query.Encode()
	}
	return first, following
}

// numberedRows is the number of rows of a page of numbered rows.
const numberedRows = 50

// jobsPage lists the background jobs, and repeats or cancels those that are chosen.
func (c *console) jobsPage() pages.Page {
	states := make([]string, 0, len(jobs.States))
	for _, state := range jobs.States {
		states = append(states, string(state))
	}
	act := func(
		name string, change func(context.Context, *pg.DB, audit.Actor, []int64) (int, error),
	) pages.Act {
		return pages.Act{
			Name: name, Action: identity.ManageJobs, StepUp: pages.SudoStepUp,
			Fields: []pages.Field{{Name: "jobs", BytesMax: textBytesMax, Missing: "Enter the numbers of jobs."}},
			Run: func(r *pages.Request) (string, error) {
				ids, err := jobNumbers(r.Values["jobs"])
				if err != nil {
					return "", err
				}
				_, err = change(r.Context(), c.conf.DB, actor(r), ids)
				return r.Path("jobs"), err
			},
		}
	}
	return pages.Page{
		Path: "/jobs", Title: "Jobs", Action: identity.ReadInstallation, Group: systemGroup, Icon: "history",
		Shortcut: "j",
		Query:    []kernel.Parameter{{Name: "state", Kind: kernel.WordParameter, Enum: states}, beforeParameter},
		Live:     []string{"JOB"},
		Load:     c.loadJobs, WriteCSV: c.writeJobs,
		Acts: []pages.Act{act("retry", jobcontrol.Retry), act("cancel", jobcontrol.Cancel)},
	}
}

// jobNumbers reads numbers that are separated by commas or spaces.
func jobNumbers(text string) ([]int64, error) {
	var ids []int64
	for _, part := range splitNumbers(text) {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n <= 0 {
			return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"Enter the numbers of jobs, separated by commas.").WithParam("jobs")
		}
		ids = append(ids, n)
	}
	return ids, nil
}

// jobsView is what the page shows.
type jobsView struct {
	List          listView
	Counts        []ui.Tab
	Retry, Cancel *actView
}

func (c *console) loadJobs(r *pages.Request) (templ.Component, error) {
	state := jobs.State(r.Query["state"])
	var found []jobs.Job
	var counts map[jobs.State]int
	err := c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if found, err = jobs.List(ctx, tx, state, beforeOf(r), numberedRows+1); err != nil {
			return err
		}
		counts, err = jobs.CountByState(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := jobsView{List: listView{
		Path: r.Path("jobs"), CSVPath: r.CSVPath(),
		Table: table{
			Caption: "Jobs", Columns: textColumns("Number", "Kind", "State", "Attempts", "Made", "Last error"),
		},
	}}
	view.Counts = []ui.Tab{{Title: "All", Path: r.Path("jobs"), Current: state == ""}}
	for _, s := range jobs.States {
		view.Counts = append(view.Counts, ui.Tab{
			Title: jobChip(s).Word, Path: r.Path("jobs") + "?" + url.Values{"state": {string(s)}}.Encode(),
			Count: strconv.Itoa(counts[s]), Current: s == state,
		})
	}
	shown := found[:min(len(found), numberedRows)]
	for _, job := range shown {
		view.List.Table.addRow(ui.Code(
			strconv.FormatInt(job.ID, 10),
		), ui.Code(job.Kind), ui.StateChip(jobChip(job.State)),
			ui.Text(strconv.Itoa(job.Attempt)+" of "+strconv.Itoa(job.AttemptsMax)), ui.When(r.Moment(job.CreatedAt)),
			foreignOrNothing(job.LastError, "none"))
	}
	if len(shown) > 0 {
		view.List.FirstPath, view.List.NextPath = numberedPaths(r, shown[len(shown)-1].ID, len(found) > len(shown))
	}
	if r.IsAllowed(identity.ManageJobs) {
		view.Retry = newJobsForm(
			r, "retry", "Repeat these jobs", "Jobs that were given up, cancelled or wait are due at once.",
		)
		view.Cancel = newJobsForm(
			r, "cancel", "Cancel these jobs", "Jobs that have not ended. A running one is asked to stop.",
		)
		view.Cancel.IsDanger = true
	}
	return jobsList(view), nil
}

func newJobsForm(r *pages.Request, act, button, text string) *actView {
	return &actView{
		Path: r.Path("jobs"), Act: act, Form: r.Form, Button: button, Text: text,
		Inputs: []ui.Input{{
			Act: act, Name: "jobs", Label: "Numbers of jobs", Type: "text", Autocomplete: "off",
			Hint: "Separated by commas, at most " + strconv.Itoa(jobcontrol.JobsMax) + ".",
		}},
	}
}

// jobChip writes the state of a job for people.
func jobChip(state jobs.State) ui.Chip {
	switch state {
	case jobs.Discarded:
		return ui.Chip{Kind: ui.Bad, Word: "Given up"}
	case jobs.Retryable:
		return ui.Chip{Kind: ui.Wait, Word: "Failed, is repeated"}
	case jobs.Running:
		return ui.Chip{Kind: ui.Info, Word: "Running"}
	case jobs.Available:
		return ui.Chip{Kind: ui.Info, Word: "Due"}
	case jobs.Scheduled:
		return ui.Chip{Kind: ui.Quiet, Word: "Planned"}
	case jobs.Pending:
		return ui.Chip{Kind: ui.Quiet, Word: "Held"}
	case jobs.Cancelled:
		return ui.Chip{Kind: ui.Quiet, Word: "Cancelled"}
	case jobs.Completed:
		return ui.Chip{Kind: ui.Good, Word: "Done"}
	}
	return ui.Chip{}
}

var jobColumns = []kernel.Column[jobs.Job]{
	{Name: "job", Cell: func(j jobs.Job) string { return strconv.FormatInt(j.ID, 10) }},
	{Name: "kind", Cell: func(j jobs.Job) string { return j.Kind }},
	{Name: "state", Cell: func(j jobs.Job) string { return string(j.State) }},
	{Name: "attempt", Cell: func(j jobs.Job) string { return strconv.Itoa(j.Attempt) }},
	{Name: "createdAt", Cell: func(j jobs.Job) string { return webhook.At(j.CreatedAt).String() }},
	{Name: "lastError", Cell: func(j jobs.Job) string { return j.LastError }},
}

// jobsTableMax bounds the rows of the table of jobs.
const jobsTableMax = 10_000

func (c *console) writeJobs(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, jobColumns,
		func(_ context.Context, _ bool, row func(jobs.Job) error) error {
			var found []jobs.Job
			err := c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
				found, err = jobs.List(ctx, tx, jobs.State(r.Query["state"]), 0, jobsTableMax)
				return err
			})
			if err != nil {
				return err
			}
			for _, job := range found {
				if err := row(job); err != nil {
					return err
				}
			}
			return nil
		})
}
