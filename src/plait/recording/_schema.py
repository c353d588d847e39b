"""The tables of a recording file, format 1. `docs/reference/file-format.md` is written from this text.

A recording is an SQLite database with application_id 0x706C6169 ("plai") and user_version = the format number.
A reader of format n reads every format up to n and refuses later ones with a sentence.
"""

APPLICATION_ID = 0x706C6169
FORMAT = 1

TABLES = """
-- One text a key: program, arguments, started (seconds since 1970), python, torch, status, seconds, ...
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
-- The program's own source files as they were, compressed with zlib.
CREATE TABLE source (file TEXT PRIMARY KEY, text BLOB) WITHOUT ROWID;
-- Places in the source, module paths, tensor types: JSON lists in the order of the fields of
-- Site, Scope (plait.graph) and TensorType (dtype, shape, device, requires_grad, leaf).
CREATE TABLE site (id INTEGER PRIMARY KEY, body TEXT);
CREATE TABLE scope (id INTEGER PRIMARY KEY, body TEXT);
CREATE TABLE type (id INTEGER PRIMARY KEY, body TEXT);
-- What can happen, relative to its place: see plait.graph._rows. count and ns: over the whole run.
CREATE TABLE row (id INTEGER PRIMARY KEY, kind TEXT, body TEXT, count INTEGER, ns INTEGER);
-- Each distinct graph once. tokens: zlib of little-endian 32-bit row numbers, in order. shapes, structure, program:
-- hashes. durations: zlib of 32-bit nanoseconds, one a token, of the first step that built it (some graphs only).
CREATE TABLE graph (
  id INTEGER PRIMARY KEY, tokens BLOB, shapes TEXT, structure TEXT, program TEXT,
  nodes INTEGER, operations INTEGER, decisions INTEGER, saved_bytes INTEGER, durations BLOB);
-- reads: JSON [[value, left, right], ...], one a decision of the graph; NULL when there is none. Here and below a REAL
-- that is a NaN is the text 'nan': SQLite would keep NULL, which means that there is no number.
CREATE TABLE step (
  id INTEGER PRIMARY KEY, graph INTEGER, kind TEXT, started REAL, ns INTEGER, operations_ns INTEGER,
  loss REAL, grad_norm REAL, saved_bytes INTEGER, complete INTEGER, reads TEXT);
-- Elements of small tensors of small graphs; place: which token of the graph. what: value or gradient.
CREATE TABLE sample (graph INTEGER, place INTEGER, output INTEGER, what TEXT, elements TEXT);
-- With --values stats: one row a backward node. place, nth: the nth backward node of that token; nth -1: the
-- accumulator of a leaf, whose output is 'output'.
CREATE TABLE backward (
  step INTEGER, backward INTEGER, place INTEGER, nth INTEGER, name TEXT, norm_in REAL, norm_out REAL, ns INTEGER,
  first_nonfinite INTEGER);
-- Leaves that ask for gradients. module: the class of the model that it was found in; registered 0: in a module that
-- ran inside that model without being a part of it, then holder is the attribute whose list or dict it lies in.
CREATE TABLE leaf (
  id INTEGER PRIMARY KEY, name TEXT, shape TEXT, module TEXT, holder TEXT, optimizer TEXT, site INTEGER,
  registered INTEGER);
-- Results with a graph that were still alive after a step: how many, of which place, and the bytes of their elements.
CREATE TABLE living (step INTEGER, site INTEGER, count INTEGER, nbytes INTEGER);
-- Calls of functions of plait.batch. site: where; calls: of operations and cells by all examples; groups: in which
-- those ran; flushes: how often what waited was run; loop: why it ran as a plain loop, or NULL; hint: what would help
-- most, or NULL; reads: JSON [[site, times], ...], where examples asked for values; alone: JSON [[name, why, times],
-- ...], what ran for one example at a time.
CREATE TABLE batch (
  id INTEGER PRIMARY KEY, step INTEGER, site INTEGER, examples INTEGER, calls INTEGER, groups INTEGER,
  flushes INTEGER, ns INTEGER, loop TEXT, hint TEXT, reads TEXT, alone TEXT);
-- The groups of the first batched runs, in the order in which they ran: calls of one kind that ran as one. flush: the
-- number of its flush in the run; examples: JSON list, one number a call; places: JSON [[site, calls], ...].
CREATE TABLE batch_group (
  batch INTEGER, id INTEGER, flush INTEGER, name TEXT, width INTEGER, ns INTEGER, examples TEXT, places TEXT);
-- Why what waited was run: site is where most of the waiting examples asked for a value, NULL when all had returned.
CREATE TABLE batch_flush (batch INTEGER, id INTEGER, site INTEGER, waiting INTEGER);
-- Which leaves the inputs of a graph were, in order (-1: none), and the first step in which they were it.
CREATE TABLE binding (graph INTEGER, step INTEGER, leaves TEXT);
-- Errors of the program that plait could explain: one JSON object, see plait.recording.Failure.
CREATE TABLE failure (id INTEGER PRIMARY KEY, step INTEGER, body TEXT);
-- Things a reader must know: limit reached, threads left out, disk full. One sentence each.
CREATE TABLE note (id INTEGER PRIMARY KEY, kind TEXT, text TEXT);
"""
