package console

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
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
	path := r.PagePath()
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

// jobBoxes is the field of the boxes of the list.
const jobBoxes = "jobs"

// jobsPage lists the background jobs, and repeats or cancels those that are ticked. Rule PAGE-49.
func (c *console) jobsPage() pages.Page {
	states := make([]string, 0, len(jobs.States))
	for _, state := range jobs.States {
		states = append(states, string(state))
	}
	act := func(
		name string, applies func(jobs.State) bool,
		change func(context.Context, *pg.DB, audit.Actor, []int64) (int, error),
	) pages.Act {
		return pages.Act{
			Name: name, Action: identity.ManageJobs, StepUp: pages.SudoStepUp,
			Fields: []pages.Field{
				{Name: jobBoxes, BytesMax: textBytesMax * 2, HasBoxes: true, Missing: "Tick at least one job."},
				{Name: "state", BytesMax: idBytesMax, Optional: true},
			},
			FindDone: c.findJobsDone(applies),
			Run: func(r *pages.Request) (string, error) {
				ids, err := jobNumbers(r)
				if err != nil {
					return "", err
				}
				_, err = change(r.Context(), c.conf.DB, actor(r), ids)
				return jobsPath(r), err
			},
		}
	}
	return pages.Page{
		Path: "/jobs", Title: "Jobs", Action: identity.ReadInstallation, Group: systemGroup, Icon: "history",
		Shortcut: "j",
		Query:    []kernel.Parameter{{Name: "state", Kind: kernel.WordParameter, Enum: states}, beforeParameter},
		Live:     []string{"JOB"},
		Load:     c.loadJobs, WriteCSV: c.writeJobs,
		Acts: []pages.Act{
			act("retry", jobs.State.CanRetry, jobcontrol.Retry), act("cancel", jobs.State.CanCancel, jobcontrol.Cancel),
		},
	}
}

// jobNumbers returns the numbers of the ticked jobs.
func jobNumbers(r *pages.Request) ([]int64, error) {
	var ids []int64
	for _, text := range r.ListTicked(jobBoxes) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n <= 0 {
			return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"This form names something that is no job.").WithAdvice("Open the page again and tick the jobs there.")
		}
		ids = append(ids, n)
	}
	return ids, nil
}

// findJobsDone returns the list if an act has nothing to do any more for any of the ticked jobs: after a second
// click, and from an old page. A job that does not exist is left to the act, which refuses it.
func (c *console) findJobsDone(applies func(jobs.State) bool) func(*pages.Request) (string, error) {
	return func(r *pages.Request) (path string, err error) {
		ids, err := jobNumbers(r)
		if err != nil || len(ids) == 0 || len(ids) > jobcontrol.JobsMax {
			return "", nil // The act says what is wrong.
		}
		isDone := true
		err = c.read(r, func(ctx context.Context, tx pg.Tx) error {
			for _, id := range ids {
				found, err := jobs.ByID(ctx, tx, id)
				if errors.Is(err, jobs.ErrUnknownJob) {
					isDone = false
					return nil
				}
				if err != nil {
					return err
				}
				isDone = isDone && !applies(found.State)
			}
			return nil
		})
		if err != nil || !isDone {
			return "", err
		}
		return jobsPath(r), nil
	}
}

// stateOfJobs is the state by which the list is filtered. A form carries it, so the list stays the same.
func stateOfJobs(r *pages.Request) jobs.State {
	for _, text := range []string{r.Query["state"], r.Values["state"]} {
		if slices.Contains(jobs.States, jobs.State(text)) {
			return jobs.State(text)
		}
	}
	return ""
}

// jobsPath is the list with its filter.
func jobsPath(r *pages.Request) string {
	if state := stateOfJobs(r); state != "" {
		return r.Path("jobs") + "?" + url.Values{"state": {string(state)}}.Encode()
	}
	return r.Path("jobs")
}

// jobsView is what the page shows.
type jobsView struct {
	List   listView
	Counts []ui.Tab
	Form   ui.Form
	State  string // of the filter
	CanAct bool
}

// jobCount writes how many jobs have a state.
func jobCount(n int) string {
	if n >= jobs.CountMax {
		return strconv.Itoa(jobs.CountMax) + " or more"
	}
	return strconv.Itoa(n)
}

func (c *console) loadJobs(r *pages.Request) (templ.Component, error) {
	state := stateOfJobs(r)
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
	view := jobsView{
		List: listView{
			Path: r.Path("jobs"), CSVPath: r.CSVPath(),
			Table: table{
				Caption: "Jobs", Columns: textColumns("Number", "Kind", "State", "Attempts", "Made", "Last error"),
			},
		},
		Form: r.Form, State: string(state), CanAct: r.IsAllowed(identity.ManageJobs),
	}
	if view.CanAct {
		view.List.Table.Columns = append([]column{{Title: "Choose", IsUnseen: true}}, view.List.Table.Columns...)
	}
	view.Counts = []ui.Tab{{Title: "All", Path: r.Path("jobs"), Current: state == ""}}
	for _, s := range jobs.States {
		view.Counts = append(view.Counts, ui.Tab{
			Title: jobChip(s).Word, Path: r.Path("jobs") + "?" + url.Values{"state": {string(s)}}.Encode(),
			Count: jobCount(counts[s]), Current: s == state,
		})
	}
	shown := found[:min(len(found), numberedRows)]
	for _, job := range shown {
		number := strconv.FormatInt(job.ID, 10)
		cells := []templ.Component{
			ui.Code(number), ui.Code(job.Kind), ui.StateChip(jobChip(job.State)),
			ui.Text(strconv.Itoa(job.Attempt) + " of " + strconv.Itoa(job.AttemptsMax)),
			ui.When(r.Moment(job.CreatedAt)), foreignOrNothing(job.LastError, "none"),
		}
		switch {
		case view.CanAct && (job.State.CanRetry() || job.State.CanCancel()):
			cells = append([]templ.Component{jobBox(number, isTicked(r, number))}, cells...)
		case view.CanAct:
			cells = append([]templ.Component{nothing("ended")}, cells...)
		}
		view.List.Table.addRow(cells...)
	}
	if len(shown) > 0 {
		view.List.FirstPath, view.List.NextPath = numberedPaths(r, shown[len(shown)-1].ID, len(found) > len(shown))
	}
	return jobsList(view), nil
}

// isTicked reports whether the box of a job was ticked in a form that comes back.
func isTicked(r *pages.Request, number string) bool {
	return r.Form.Act != "" && slices.Contains(r.ListTicked(jobBoxes), number)
}

// jobsAnchor is the id to which the summary of a refused form leads.
func jobsAnchor(f ui.Form) string { return cmp.Or(f.Act, "retry") + "-" + jobBoxes }

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
