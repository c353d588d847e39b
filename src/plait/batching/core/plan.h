/* The plan of a flush: signatures, groups in order, the rows of each; and the way back from results. */
/* sig(gather, ragged, in_rows, out_rows, out_spaces) -> its number */
static int ints(PyObject *t, int **out) {
    int n = (int)PyTuple_GET_SIZE(t);
    *out = PyMem_Malloc(sizeof(int) * (n + 1));
    if (!*out) { PyErr_NoMemory(); return -1; }
    for (int i = 0; i < n; i++) (*out)[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(t, i));
    return PyErr_Occurred() ? -1 : n;
}
static PyObject *core_sig(CoreObject *c, PyObject *args) {
    int gather, ragged; PyObject *in_rows, *out_rows, *out_space;
    if (!PyArg_ParseTuple(args, "iiO!O!O!", &gather, &ragged, &PyTuple_Type, &in_rows, &PyTuple_Type, &out_rows,
                          &PyTuple_Type, &out_space)) return NULL;
    Py_ssize_t cap = c->cap_sigs;
    if (grow((void **)&c->sigs, &cap, c->n_sigs + 1, sizeof(Sig))) return NULL;
    c->cap_sigs = (int)cap;
    Sig *s = &c->sigs[c->n_sigs];
    memset(s, 0, sizeof(Sig));
    s->gather = gather; s->ragged = ragged;
    s->n_in = ints(in_rows, &s->in_rows);
    s->n_out = ints(out_rows, &s->out_rows);
    if (s->n_in < 0 || s->n_out < 0 || ints(out_space, &s->out_space) < 0) return NULL;
    for (int i = 0; i < s->n_out; i++)
        if (s->out_space[i] >= c->n_spaces) {
            int need = s->out_space[i] + 1;
            int64_t *u = PyMem_Realloc(c->used, sizeof(int64_t) * need);
            if (!u) return PyErr_NoMemory();
            for (int k = c->n_spaces; k < need; k++) u[k] = 0;
            c->used = u; c->n_spaces = need;
        }
    s->scc = c->n_sigs;
    c->dirty = 1;
    return PyLong_FromLong(c->n_sigs++);
}

/* room(space, rows) -> first of new rows of a space */
static PyObject *core_room(CoreObject *c, PyObject *args) {
    int space; Py_ssize_t rows;
    if (!PyArg_ParseTuple(args, "in", &space, &rows)) return NULL;
    if (space >= c->n_spaces) {
        int64_t *u = PyMem_Realloc(c->used, sizeof(int64_t) * (space + 1));
        if (!u) return PyErr_NoMemory();
        for (int k = c->n_spaces; k <= space; k++) u[k] = 0;
        c->used = u; c->n_spaces = space + 1;
    }
    int64_t at = c->used[space];
    c->used[space] += rows;
    return PyLong_FromLongLong(at);
}
/* used() -> rows in use, for each space */
static PyObject *core_used(CoreObject *c, PyObject *none) {
    PyObject *res = PyList_New(c->n_spaces);
    for (int i = 0; res && i < c->n_spaces; i++) PyList_SET_ITEM(res, i, PyLong_FromLongLong(c->used[i]));
    return res;
}
/* place(slot, row, count): these slots have rows now */
static PyObject *core_place(CoreObject *c, PyObject *args) {
    Py_ssize_t slot, row, count;
    if (!PyArg_ParseTuple(args, "nnn", &slot, &row, &count)) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) c->row_of[slot + i] = (int32_t)(row + i);
    Py_RETURN_NONE;
}
static PyObject *core_row_of(CoreObject *c, PyObject *arg) {
    Py_ssize_t s = PyLong_AsSsize_t(arg);
    return PyLong_FromLong(s < c->next ? c->row_of[s] : -1);
}

static void add_pred(CoreObject *c, int sig, int pred) {
    Sig *s = &c->sigs[sig];
    for (int i = s->n_pred - 1; i >= 0; i--) if (s->preds[i] == pred) return;
    if (s->n_pred == s->cap_pred) {
        int cap = s->cap_pred ? 2 * s->cap_pred : 8;
        int *q = PyMem_Realloc(s->preds, sizeof(int) * cap);
        if (!q) return;
        s->preds = q; s->cap_pred = cap;
    }
    s->preds[s->n_pred++] = pred;
    c->dirty = 1;
}

typedef struct { int64_t a, b; int32_t k; } Item;
static int by_key(const void *p, const void *q) {
    const Item *x = p, *y = q;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    if (x->b != y->b) return x->b < y->b ? -1 : 1;
    return x->k < y->k ? -1 : x->k > y->k;
}
static int by_int(const void *p, const void *q) {
    int32_t a = *(const int32_t *)p, b = *(const int32_t *)q;
    return a < b ? -1 : a > b;
}

/* Recomputes the order of signatures: components(list of predecessor tuples) -> list of component numbers. */
static int components(CoreObject *c) {
    PyObject *all = PyList_New(c->n_sigs);
    if (!all) return -1;
    for (int i = 0; i < c->n_sigs; i++) {
        PyObject *t = PyTuple_New(c->sigs[i].n_pred);
        for (int j = 0; j < c->sigs[i].n_pred; j++) PyTuple_SET_ITEM(t, j, PyLong_FromLong(c->sigs[i].preds[j]));
        PyList_SET_ITEM(all, i, t);
    }
    PyObject *res = PyObject_CallOneArg(c->components, all);
    Py_DECREF(all);
    if (!res) return -1;
    for (int i = 0; i < c->n_sigs; i++) c->sigs[i].scc = (int)PyLong_AsLong(PyList_GET_ITEM(res, i));
    Py_DECREF(res);
    c->dirty = 0;
    return 0;
}

static inline int step_of(const Sig *s) { return s->gather ? 2 : 1; }

/* plan(slots) -> (groups, index bytes, sizes); a group is (sig, n, lengths or None, columns, outs, lanes, nodes); the
 * last two are 32-bit numbers, one a call. The index is cut into pieces of these sizes.
 * A column is (start, count, None, end) for rows that follow one another, else (0, count, number of its piece, end); no
 * row of it is at `end` or after. */
static PyObject *core_plan(CoreObject *c, PyObject *arg) {
    PyObject *fast = PySequence_Fast(arg, "slots");
    if (!fast) return NULL;
    int32_t *todo = NULL, *ids = NULL, *at = NULL, *level = NULL, *group = NULL; Item *items = NULL; int64_t *want = NULL;
    Py_ssize_t n_todo = PySequence_Fast_GET_SIZE(fast), cap_todo = 0, n = 0, cap_ids = 0;
    PyObject *groups = NULL, *index = NULL, *res = NULL;
    int64_t *buf = NULL; Py_ssize_t n_buf = 0, cap_buf = 0;
    Py_ssize_t *starts = NULL;
    PyObject *sizes = PyList_New(0);
    if (!sizes) goto end;
    if (grow((void **)&todo, &cap_todo, n_todo + 1, sizeof(int32_t))) goto end;
    {
        Py_ssize_t k = 0;
        for (Py_ssize_t i = 0; i < n_todo; i++) {
            Py_ssize_t s = PyLong_AsSsize_t(PySequence_Fast_GET_ITEM(fast, i));
            if (s >= 0 && s < c->next) todo[k++] = c->owner[s];
        }
        n_todo = k;
    }
    if (PyErr_Occurred()) goto end;
    {   /* 1. what is needed */
        Py_ssize_t old = c->cap_stamp;
        if (grow((void **)&c->stamp, &c->cap_stamp, c->n_nodes + 1, sizeof(int32_t))) goto end;
        if (c->cap_stamp > old) memset(c->stamp + old, 0, (c->cap_stamp - old) * sizeof(int32_t));
        c->round++;
        while (n_todo) {
            int32_t i = todo[--n_todo];
            if (i < 0 || c->nodes[i].sig < 0 || c->stamp[i] == c->round) continue;
            c->stamp[i] = c->round;
            if (grow((void **)&ids, &cap_ids, n + 1, sizeof(int32_t))) goto end;
            ids[n++] = i;
            Node *nd = &c->nodes[i];
            int step = step_of(&c->sigs[nd->sig]);
            if (grow((void **)&todo, &cap_todo, n_todo + nd->n_in + 1, sizeof(int32_t))) goto end;
            for (int j = 0; j < nd->n_in; j += step) {
                if (step == 2 && c->ins[nd->ins + j + 1] == 0) continue;
                int32_t p = c->owner[c->ins[nd->ins + j]];
                if (p >= 0 && c->nodes[p].sig >= 0 && c->stamp[p] != c->round) todo[n_todo++] = p;
            }
        }
        qsort(ids, n, sizeof(int32_t), by_int);
    }
    {   /* 2. edges between signatures, components */
        for (Py_ssize_t k = 0; k < n; k++) {
            Node *nd = &c->nodes[ids[k]];
            int step = step_of(&c->sigs[nd->sig]);
            for (int j = 0; j < nd->n_in; j += step) {
                int32_t p = c->owner[c->ins[nd->ins + j]];
                if (p >= 0 && c->stamp[p] == c->round && c->nodes[p].sig >= 0) add_pred(c, nd->sig, c->nodes[p].sig);
            }
        }
        if (c->dirty && components(c)) goto end;
    }
    level = PyMem_Malloc(sizeof(int32_t) * (n + 1));
    group = PyMem_Malloc(sizeof(int32_t) * (n + 1));
    items = PyMem_Malloc(sizeof(Item) * (n + 1));
    at = PyMem_Malloc(sizeof(int32_t) * (c->n_nodes + 1));
    want = PyMem_Malloc(sizeof(int64_t) * (n + 1));
    starts = PyMem_Malloc(sizeof(Py_ssize_t) * (n + 2));
    if (!level || !group || !items || !at || !want || !starts) { PyErr_NoMemory(); goto end; }
    for (Py_ssize_t k = 0; k < n; k++) {   /* 3. waves */
        Node *nd = &c->nodes[ids[k]];
        Sig *s = &c->sigs[nd->sig];
        int step = step_of(s), lv = 0;
        at[ids[k]] = (int32_t)k;
        for (int j = 0; j < nd->n_in; j += step) {
            int32_t p = c->owner[c->ins[nd->ins + j]];
            if (p < 0 || p >= ids[k] || c->nodes[p].sig < 0 || c->stamp[p] != c->round) continue;
            if (c->sigs[c->nodes[p].sig].scc == s->scc && level[at[p]] >= lv) lv = level[at[p]] + 1;
        }
        level[k] = lv;
        items[k] = (Item){((int64_t)s->scc << 32) | lv, nd->sig, (int32_t)k};
        want[k] = INT64_MAX;
    }
    qsort(items, n, sizeof(Item), by_key);
    Py_ssize_t n_groups = 0;
    for (Py_ssize_t k = 0; k < n; k++) {
        if (k == 0 || items[k].a != items[k - 1].a || items[k].b != items[k - 1].b) starts[n_groups++] = k;
        group[items[k].k] = (int32_t)n_groups - 1;
    }
    starts[n_groups] = n;
    for (Py_ssize_t g = n_groups - 1; g >= 0; g--) {   /* 4. rows in the order in which they will be used */
        for (Py_ssize_t k = starts[g]; k < starts[g + 1]; k++) {
            items[k].a = want[items[k].k];
            items[k].b = 0;
            if (items[k].a != INT64_MAX) continue;
            /* nobody uses it yet: those that read from one group stand together */
            Node *nd = &c->nodes[ids[items[k].k]];
            int step = step_of(&c->sigs[nd->sig]);
            for (int j = 0; j < nd->n_in; j += step) {
                int32_t p = c->owner[c->ins[nd->ins + j]];
                if (p < 0 || c->stamp[p] != c->round || c->nodes[p].sig < 0) continue;
                items[k].b = group[at[p]];
                break;
            }
        }
        qsort(items + starts[g], starts[g + 1] - starts[g], sizeof(Item), by_key);
        for (Py_ssize_t k = starts[g]; k < starts[g + 1]; k++) {
            Node *nd = &c->nodes[ids[items[k].k]];
            int step = step_of(&c->sigs[nd->sig]);
            for (int j = 0; j < nd->n_in; j += step) {
                int32_t p = c->owner[c->ins[nd->ins + j]];
                if (p < 0 || c->stamp[p] != c->round || c->nodes[p].sig < 0) continue;
                int64_t key = ((int64_t)g << 36) | ((int64_t)(step == 2 ? 0 : j) << 30) | (k - starts[g]);
                if (step == 2) key = ((int64_t)g << 36) | ((k - starts[g]) << 8) | (j < 500 ? j / 2 : 250);
                if (key < want[at[p]]) want[at[p]] = key;
            }
        }
    }
    groups = PyList_New(n_groups);
    if (!groups) goto end;
    for (Py_ssize_t g = 0; g < n_groups; g++) {   /* 5. rows of results, index of inputs */
        Py_ssize_t lo = starts[g], hi = starts[g + 1], count = hi - lo;
        int sig = c->nodes[ids[items[lo].k]].sig;
        Sig *s = &c->sigs[sig];
        PyObject *lengths = Py_None;
        Py_INCREF(lengths);
        if (s->ragged || s->gather) {
            Py_DECREF(lengths);
            lengths = PyList_New(count);
            for (Py_ssize_t k = lo; k < hi; k++)
                PyList_SET_ITEM(lengths, k - lo, PyLong_FromLong(c->nodes[ids[items[k].k]].length));
        }
        int n_cols = s->gather ? 1 : s->n_in;
        PyObject *cols = PyTuple_New(n_cols), *outs = PyTuple_New(s->n_out);
        for (int j = 0; j < n_cols; j++) {
            Py_ssize_t from = n_buf;
            int64_t end = 0;
            int run = 1;
            for (Py_ssize_t k = lo; k < hi; k++) {
                Node *nd = &c->nodes[ids[items[k].k]];
                int parts = s->gather ? nd->n_in / 2 : 1;
                for (int q = 0; q < parts; q++) {
                    int32_t slot = c->ins[nd->ins + (s->gather ? 2 * q : j)];
                    int rows = s->gather ? c->ins[nd->ins + 2 * q + 1] : s->in_rows[j] < 0 ? nd->length : s->in_rows[j];
                    if (!rows) continue;
                    if (grow((void **)&buf, &cap_buf, n_buf + rows, sizeof(int64_t))) goto end;
                    int64_t first = c->row_of[slot];
                    if (n_buf > from && first != buf[n_buf - 1] + 1) run = 0;
                    if (first + rows > end) end = first + rows;
                    for (int r = 0; r < rows; r++) buf[n_buf++] = first + r;
                }
            }
            Py_ssize_t total = n_buf - from;
            PyObject *col;
            if (run) {
                col = Py_BuildValue("(LnOL)", total ? (long long)buf[from] : 0LL, total, Py_None, (long long)end);
                n_buf = from;
            } else {
                PyObject *size = PyLong_FromSsize_t(total);
                col = Py_BuildValue("(innL)", 0, total, PyList_GET_SIZE(sizes), (long long)end);
                if (!size || PyList_Append(sizes, size)) { Py_XDECREF(size); Py_XDECREF(col); goto end; }
                Py_DECREF(size);
            }
            PyTuple_SET_ITEM(cols, j, col);
        }
        for (int o = 0; o < s->n_out; o++) {
            int64_t first = c->used[s->out_space[o]], row = first;
            for (Py_ssize_t k = lo; k < hi; k++) {
                Node *nd = &c->nodes[ids[items[k].k]];
                int rows = s->out_rows[o] < 0 ? nd->length : s->out_rows[o];
                int slot = nd->out;
                for (int q = 0; q < o; q++) slot += s->out_rows[q] < 0 ? nd->length : s->out_rows[q];
                for (int r = 0; r < rows; r++) c->row_of[slot + r] = (int32_t)row++;
            }
            c->used[s->out_space[o]] = row;
            PyTuple_SET_ITEM(outs, o, Py_BuildValue("(LL)", (long long)first, (long long)(row - first)));
        }
        for (Py_ssize_t k = lo; k < hi; k++) level[items[k].k] = -1;
        PyObject *lanes = PyBytes_FromStringAndSize(NULL, count * sizeof(int32_t));
        PyObject *members = PyBytes_FromStringAndSize(NULL, count * sizeof(int32_t));
        if (!lanes || !members) goto end;
        for (Py_ssize_t k = lo; k < hi; k++) {
            ((int32_t *)PyBytes_AS_STRING(lanes))[k - lo] = c->nodes[ids[items[k].k]].lane;
            ((int32_t *)PyBytes_AS_STRING(members))[k - lo] = ids[items[k].k];
        }
        PyList_SET_ITEM(groups, g, Py_BuildValue("(inNNNNN)", sig, count, lengths, cols, outs, lanes, members));
    }
    for (Py_ssize_t k = 0; k < n; k++) c->nodes[ids[k]].sig = -2 - c->nodes[ids[k]].sig;   /* has run */
    index = PyByteArray_FromStringAndSize((char *)buf, n_buf * sizeof(int64_t));
    if (index) { res = Py_BuildValue("(NNO)", groups, index, sizes); groups = NULL; }
end:
    Py_XDECREF(groups); Py_XDECREF(sizes);
    Py_DECREF(fast);
    PyMem_Free(todo); PyMem_Free(ids); PyMem_Free(at); PyMem_Free(level); PyMem_Free(group); PyMem_Free(items);
    PyMem_Free(want);
    PyMem_Free(buf); PyMem_Free(starts);
    return res;
}

/* shared() -> (calls, kinds of calls, and for each kind the examples that made one, added up; more where they took turns) */
static PyObject *core_shared(CoreObject *c, PyObject *none) {
    int *last = PyMem_Malloc(sizeof(int) * (c->n_sigs + 1));
    if (!last) return PyErr_NoMemory();
    for (int i = 0; i < c->n_sigs; i++) last[i] = -1;
    Py_ssize_t kinds = 0, pairs = 0;
    for (Py_ssize_t i = 0; i < c->n_nodes; i++) {
        Node *nd = &c->nodes[i];
        int sig = nd->sig < 0 ? -2 - nd->sig : nd->sig;
        if (last[sig] == nd->lane) continue;
        kinds += last[sig] < 0;
        last[sig] = nd->lane;
        pairs++;
    }
    PyMem_Free(last);
    return Py_BuildValue("(nnn)", c->n_nodes, kinds, pairs);
}

/* reach(slots) -> for each space a byte per row: whether a gradient can come from these slots to the value of the row */
static PyObject *core_reach(CoreObject *c, PyObject *arg) {
    PyObject *fast = PySequence_Fast(arg, "slots"), *res = NULL;
    if (!fast) return NULL;
    char *mark = PyMem_Calloc(c->next + 1, 1), *seen = PyMem_Calloc(c->n_nodes + 1, 1);
    int32_t *todo = NULL; Py_ssize_t n = 0, cap = 0;
    if (!mark || !seen) { PyErr_NoMemory(); goto end; }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); i++) {
        Py_ssize_t s = PyLong_AsSsize_t(PySequence_Fast_GET_ITEM(fast, i));
        if (s < 0 || s >= c->next) continue;
        if (grow((void **)&todo, &cap, n + 1, sizeof(int32_t))) goto end;
        todo[n++] = (int32_t)s;
    }
    while (n) {
        int32_t s = todo[--n];
        mark[s] = 1;
        int32_t p = c->owner[s];
        if (p < 0 || seen[p]) continue;
        seen[p] = 1;
        Node *nd = &c->nodes[p];
        int sig = nd->sig < 0 ? -2 - nd->sig : nd->sig, step = step_of(&c->sigs[sig]);
        if (grow((void **)&todo, &cap, n + nd->n_in + 1, sizeof(int32_t))) goto end;
        for (int j = 0; j < nd->n_in; j += step) todo[n++] = c->ins[nd->ins + j];
    }
    res = PyList_New(c->n_spaces);
    for (int s = 0; res && s < c->n_spaces; s++) {
        PyObject *b = PyByteArray_FromStringAndSize(NULL, c->used[s]);
        if (!b) { Py_CLEAR(res); break; }
        memset(PyByteArray_AS_STRING(b), 0, c->used[s]);
        PyList_SET_ITEM(res, s, b);
    }
    for (Py_ssize_t p = 0; res && p < c->n_nodes; p++) {
        if (!seen[p] || c->nodes[p].sig >= -1) continue;
        Sig *s = &c->sigs[-2 - c->nodes[p].sig];
        int slot = c->nodes[p].out;
        for (int o = 0; o < s->n_out; o++) {
            int rows = s->out_rows[o] < 0 ? c->nodes[p].length : s->out_rows[o], any = 0;
            for (int r = 0; r < rows; r++) any |= mark[slot + r];
            char *flags = PyByteArray_AS_STRING(PyList_GET_ITEM(res, s->out_space[o]));
            if (any && rows) memset(flags + c->row_of[slot], 1, rows);
            slot += rows;
        }
    }
end:
    Py_DECREF(fast);
    PyMem_Free(mark); PyMem_Free(seen); PyMem_Free(todo);
    return res;
}
