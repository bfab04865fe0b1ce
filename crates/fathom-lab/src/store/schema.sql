-- results.db: everything one `fathom run` measured, raw. Version 14 (PRAGMA user_version = 14),
-- journal_mode = WAL, PRAGMA application_id = 0x4641544D ('FATM'). Times are nanoseconds unless the
-- name says otherwise; moments are milliseconds since 1970 UTC.

CREATE TABLE experiment (               -- exactly one row
  id INTEGER PRIMARY KEY CHECK (id = 1),
  name TEXT NOT NULL,                   -- 'journal-modes'
  title TEXT NOT NULL,
  source TEXT NOT NULL,                 -- the experiment file, whole; figures and headlines are read from it
  source_name TEXT NOT NULL,            -- 'built-in' or the file's name
  command TEXT NOT NULL,                -- the exact command that repeats this
  seed INTEGER NOT NULL,
  repeats INTEGER NOT NULL,
  quick INTEGER NOT NULL,               -- 1 = --quick
  fathom_version TEXT NOT NULL,         -- behind a + the commit, where it was built with FATHOM_COMMIT
  started_ms INTEGER NOT NULL,
  finished_ms INTEGER                   -- NULL while unfinished (see --resume)
);

CREATE TABLE environment (              -- kernel, cpu, memory, clocksource, governor, SQLite version …
  key TEXT PRIMARY KEY, value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE cell (
  id INTEGER PRIMARY KEY,               -- order in the plan, from 1
  label TEXT NOT NULL UNIQUE,           -- 'ext4 wal full'
  axes TEXT NOT NULL,                   -- JSON object: the matrix' axes and this cell's value on each
  spec TEXT NOT NULL,                   -- the whole cell as JSON
  durability TEXT,                      -- as Durability, NULL until a worker said it
  skipped TEXT                          -- reason and remedy when this machine cannot run it, else NULL
);

CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  cell INTEGER NOT NULL REFERENCES cell(id),
  block INTEGER NOT NULL,               -- repeat number, from 0: one run of every cell per block, in seeded order
  position INTEGER NOT NULL,            -- place within the block
  seed INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
  message TEXT,                         -- of a failed run
  started_ms INTEGER NOT NULL,
  elapsed_ns INTEGER NOT NULL,          -- whole worker, preparation included
  engine TEXT,                          -- EngineInfo as JSON
  parameters TEXT,                      -- workload parameters as JSON, defaults filled in
  stack TEXT NOT NULL,                  -- StackRecord as JSON
  floor_ns INTEGER,                     -- median of the floor probe before this run: 4 KiB write + fdatasync on this stack
  max_rss_bytes INTEGER,
  involuntary_switches INTEGER,
  steal_share REAL,                     -- share of the CPU time that the hypervisor took away during the run, 0 to 1; NULL = not known
  load REAL,                            -- 1-minute load average just before the run; NULL = not known
  device TEXT,                          -- DeviceUse of each modelled device (the file system's, then its external log's) as a JSON array:
                                        -- how it kept its model's times; NULL = none. Version 4:
                                        -- the first device's alone, no array
  failure TEXT,                         -- of a failed run (version 12): whose fault it is, see failure.rs; NULL = by the message's words
  conditions TEXT,                      -- battery, temperature, clocks before and after (version 13): Conditions as JSON, see machine_state.rs;
                                        -- NULL = the machine does not tell
  UNIQUE (cell, block)
);

CREATE TABLE phase (                    -- one row per run and phase (and abscissa); see PhaseSummary
  run INTEGER NOT NULL REFERENCES run(id),
  phase TEXT NOT NULL,
  x REAL,
  unit TEXT NOT NULL,                   -- transaction, query, operation
  count INTEGER NOT NULL,
  wall_ns INTEGER NOT NULL,
  min_ns INTEGER NOT NULL, p50_ns INTEGER NOT NULL, p90_ns INTEGER NOT NULL, p99_ns INTEGER NOT NULL, p999_ns INTEGER NOT NULL, max_ns INTEGER NOT NULL,
  sum_wall_ns INTEGER NOT NULL, cpu_ns INTEGER NOT NULL, read_ns INTEGER NOT NULL, write_ns INTEGER NOT NULL, sync_ns INTEGER NOT NULL, other_ns INTEGER NOT NULL,
  read_bytes INTEGER NOT NULL, write_bytes INTEGER NOT NULL,
  read_calls INTEGER NOT NULL, write_calls INTEGER NOT NULL, sync_calls INTEGER NOT NULL, other_calls INTEGER NOT NULL,
  lock_waits INTEGER, lock_wait_ns INTEGER, -- NULL = the engine does not tell; version 1 had 0 there
  -- The critical path of several threads, which adds up to wall_ns; NULL = not followed. Since
  -- version 10.
  path_cpu_ns INTEGER, path_read_ns INTEGER, path_write_ns INTEGER, path_sync_ns INTEGER, path_lock_ns INTEGER, path_other_ns INTEGER
);
CREATE INDEX phase_by_run ON phase (run, phase);

CREATE TABLE phase_model (              -- a phase by the model of its device (version 7); see model_time/mod.rs and docs/method.md
  run INTEGER NOT NULL REFERENCES run(id),
  phase TEXT NOT NULL,
  x REAL,
  basis TEXT NOT NULL CHECK (basis IN ('threads', 'device')),
  wall_ns INTEGER NOT NULL,             -- as measured; less model_ns it is what this machine held the run up
  model_ns INTEGER NOT NULL,            -- cpu_ns + device_ns + other_ns
  cpu_ns INTEGER NOT NULL, device_ns INTEGER NOT NULL, other_ns INTEGER NOT NULL,
  each_ns REAL NOT NULL,                -- mean of one execution
  min_ns INTEGER NOT NULL, p50_ns INTEGER NOT NULL, p90_ns INTEGER NOT NULL, p99_ns INTEGER NOT NULL, p999_ns INTEGER NOT NULL, max_ns INTEGER NOT NULL,
  reads INTEGER NOT NULL, writes INTEGER NOT NULL, flushes INTEGER NOT NULL, discards INTEGER NOT NULL,  -- that came to the devices
  read_bytes INTEGER NOT NULL, written_bytes INTEGER NOT NULL, discarded_bytes INTEGER NOT NULL,
  busy_model_ns INTEGER NOT NULL, busy_measured_ns INTEGER NOT NULL  -- the devices had something to do, whoever waited
);
CREATE INDEX phase_model_by_run ON phase_model (run, phase);

CREATE TABLE sample (                   -- one row per execution; see Sample
  run INTEGER NOT NULL REFERENCES run(id),
  phase TEXT NOT NULL,
  x REAL,
  seq INTEGER NOT NULL,
  thread INTEGER NOT NULL,
  rows INTEGER NOT NULL,
  wall_ns INTEGER NOT NULL, cpu_ns INTEGER NOT NULL, read_ns INTEGER NOT NULL, write_ns INTEGER NOT NULL, sync_ns INTEGER NOT NULL, other_ns INTEGER NOT NULL,
  read_bytes INTEGER NOT NULL, write_bytes INTEGER NOT NULL,
  read_calls INTEGER NOT NULL, write_calls INTEGER NOT NULL, sync_calls INTEGER NOT NULL, other_calls INTEGER NOT NULL,
  model_ns INTEGER,                     -- by the model of its device (version 12); NULL = not known
  database INTEGER                      -- the only one that it worked on, by a number (version 14); NULL = not known
);
CREATE INDEX sample_by_run ON sample (run, phase, x, seq);

CREATE TABLE io (                       -- VFS calls by file class; see IoRow
  run INTEGER NOT NULL REFERENCES run(id),
  phase TEXT NOT NULL, class TEXT NOT NULL, op TEXT NOT NULL,
  calls INTEGER NOT NULL, bytes INTEGER NOT NULL, ns INTEGER NOT NULL
);
CREATE INDEX io_by_run ON io (run, phase);

CREATE TABLE trace (                    -- one row per run with a block trace (version 3)
  run INTEGER PRIMARY KEY REFERENCES run(id),
  source TEXT NOT NULL CHECK (source IN ('device', 'files')),  -- requests to the device, or calls on files
  span_ns INTEGER NOT NULL,             -- times below count from the trace's begin
  lost_events INTEGER NOT NULL,         -- events that the kernel's buffer had no room for
  unfinished INTEGER NOT NULL,          -- requests that had not completed when the trace ended
  remarks TEXT NOT NULL                 -- JSON array: what a reader must know of the attribution
);

CREATE TABLE phase_window (             -- when a phase was
  run INTEGER NOT NULL REFERENCES run(id),
  number INTEGER NOT NULL,              -- from 0; block_request.window means it
  phase TEXT NOT NULL,
  x REAL,
  start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
  count INTEGER NOT NULL,               -- executions
  changed_bytes INTEGER NOT NULL,       -- of values bound to statements that changed rows; 0 = not known
  PRIMARY KEY (run, number)
) WITHOUT ROWID;

CREATE TABLE block_request (            -- requests, those of several causes in pieces; the view `block` has names
  run INTEGER NOT NULL REFERENCES run(id),
  request INTEGER NOT NULL,             -- in order of issue, from 0
  piece INTEGER NOT NULL,               -- consecutive bytes of one cause, from 0
  device INTEGER NOT NULL,              -- 0 the file system's, 1 its external log
  op INTEGER NOT NULL,
  cause INTEGER NOT NULL,
  flags INTEGER NOT NULL,               -- 1 forced unit access, 2 synchronous, 4 marked as metadata
  "window" INTEGER,                     -- phase_window.number; NULL outside of the phases
  submit_ns INTEGER NOT NULL, issue_ns INTEGER NOT NULL, complete_ns INTEGER NOT NULL,
  offset INTEGER NOT NULL, bytes INTEGER NOT NULL,
  PRIMARY KEY (run, request, piece)
) WITHOUT ROWID;

CREATE VIEW block AS SELECT
  run, request, piece, device,
  CASE op WHEN 0 THEN 'read' WHEN 1 THEN 'write' WHEN 2 THEN 'flush' WHEN 3 THEN 'discard' ELSE 'other' END AS op,
  CASE cause WHEN 0 THEN 'database' WHEN 1 THEN 'rollback-journal' WHEN 2 THEN 'wal' WHEN 3 THEN 'other-file'
    WHEN 4 THEN 'metadata' WHEN 5 THEN 'file-system-journal' WHEN 6 THEN 'unattributed' ELSE 'flush' END AS cause,
  flags & 1 AS fua, flags >> 1 & 1 AS sync, flags >> 2 & 1 AS meta,
  (SELECT phase FROM phase_window WHERE phase_window.run = block_request.run AND number = "window") AS phase,
  submit_ns, issue_ns, complete_ns, complete_ns - submit_ns AS latency_ns, offset, bytes
FROM block_request;

CREATE TABLE recording (                -- what a run's device served and its threads did, with `[instruments] operations = true`
  run INTEGER PRIMARY KEY REFERENCES run(id),  -- (version 9); what `fathom simulate` replays
  data BLOB NOT NULL                    -- see recording/codec.rs
);

CREATE TABLE power_cut (                -- what a power cut leaves, with `[instruments] power_cut = true` (version 11); see fathom-cut
  cell INTEGER PRIMARY KEY REFERENCES cell(id),
  problem TEXT,                         -- why nothing could be tried; then all that follows is NULL
  filesystem TEXT,                      -- that was mounted again for each state
  commits INTEGER,                      -- acknowledged, after the preparation
  states INTEGER,                       -- that were judged
  states_possible INTEGER,
  not_kept INTEGER,                     -- of those judged: something acknowledged is missing, or worse
  worst TEXT,                           -- class of the worst: kept, lost-last, lost-several, needs-repair, corrupt, cannot-be-opened …
  worst_state INTEGER,                  -- its number
  breaks_promise INTEGER,               -- 1 = worse than what the settings promise
  outcome TEXT                          -- all of it as JSON: classes, the run from begin to end, why the worst is as it is
);

CREATE TABLE verified (run INTEGER NOT NULL REFERENCES run(id), text TEXT NOT NULL);

CREATE TABLE warning (
  run INTEGER REFERENCES run(id),       -- NULL = of the whole experiment
  text TEXT NOT NULL,
  kind TEXT                             -- no-device, warm-caches, noise, made-up, other (version 12); NULL = by the text's words
);

CREATE TABLE checksum (                 -- of all rows of a run, written with them (version 6); see store/checksum.rs
  run INTEGER PRIMARY KEY,              -- 0 = experiment, environment, cells, and warnings of no run
  sum INTEGER NOT NULL                  -- 64 bits: the sum of the FNV-1a hashes of the rows
);
