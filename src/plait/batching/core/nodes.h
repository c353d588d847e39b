/* The core itself: slots of values, nodes of waiting calls. */
typedef struct { int gather, ragged, n_in, n_out, scc, n_pred, cap_pred; int *in_rows, *out_rows, *out_space, *preds; } Sig;
typedef struct { int sig, length, out, ins, n_in, lane; } Node;
typedef struct { uint64_t hash; int k; uint64_t *words; PyObject *keep, *found; } Line;   /* a call seen before */

typedef struct {
    PyObject_HEAD
    PyObject *entries, *input, *grad_enabled, *autocast, *components, *tensor, *fixed, *training, *on_node;
    PyTypeObject *lazy;
    PyObject *pause, *waiting, *getcurrent, *current, *hub, *checks, *settings;   /* how an example waits: see wait_for */
    PyObject *resuming, *answers; Py_ssize_t turn;
    char plain, cast;
    Line *lines; Py_ssize_t n_lines, cap_lines;
    Py_ssize_t lane, base;             /* the example that runs, as a number that no other batch has; example 0 */
    int32_t *owner, *row_of; Py_ssize_t next, cap_slots;
    Node *nodes; Py_ssize_t n_nodes, cap_nodes;
    int32_t *ins; Py_ssize_t n_ins, cap_ins;
    Sig *sigs; int n_sigs, cap_sigs;
    int64_t *used; int n_spaces;
    int32_t *stamp; Py_ssize_t cap_stamp; int32_t round;
    int dirty;
} CoreObject;

static int grow(void **p, Py_ssize_t *cap, Py_ssize_t need, size_t size) {
    if (need <= *cap) return 0;
    Py_ssize_t c = *cap * 2 > need ? *cap * 2 : need;
    if (c < 256) c = 256;
    void *q = PyMem_Realloc(*p, c * size);
    if (!q) { PyErr_NoMemory(); return -1; }
    *p = q; *cap = c;
    return 0;
}
static int grow_slots(CoreObject *c, Py_ssize_t need) {
    if (need <= c->cap_slots) return 0;
    Py_ssize_t cap = c->cap_slots;
    if (grow((void **)&c->owner, &cap, need, sizeof(int32_t))) return -1;
    void *q = PyMem_Realloc(c->row_of, cap * sizeof(int32_t));
    if (!q) { PyErr_NoMemory(); return -1; }
    c->row_of = q; c->cap_slots = cap;
    return 0;
}
/* forget(): no call counts as seen */
static PyObject *core_forget(CoreObject *c, PyObject *none) {
    Line *lines = c->lines;
    Py_ssize_t cap = c->cap_lines;
    c->lines = NULL; c->cap_lines = c->n_lines = 0;
    for (Py_ssize_t i = 0; i < cap; i++) {
        PyMem_Free(lines[i].words); Py_XDECREF(lines[i].keep); Py_XDECREF(lines[i].found);
    }
    PyMem_Free(lines);
    Py_RETURN_NONE;
}
static void core_dealloc(CoreObject *c) {
    for (int i = 0; i < c->n_sigs; i++) {
        PyMem_Free(c->sigs[i].in_rows); PyMem_Free(c->sigs[i].out_rows);
        PyMem_Free(c->sigs[i].out_space); PyMem_Free(c->sigs[i].preds);
    }
    PyMem_Free(c->sigs); PyMem_Free(c->owner); PyMem_Free(c->row_of); PyMem_Free(c->nodes); PyMem_Free(c->ins);
    PyMem_Free(c->used); PyMem_Free(c->stamp);
    Py_XDECREF(core_forget(c, NULL)); Py_XDECREF(c->resuming); Py_XDECREF(c->answers);
    Py_XDECREF(c->entries); Py_XDECREF(c->input); Py_XDECREF(c->grad_enabled); Py_XDECREF(c->autocast);
    Py_XDECREF(c->components); Py_XDECREF(c->on_node); Py_XDECREF(c->lazy);
    Py_XDECREF(c->pause); Py_XDECREF(c->waiting); Py_XDECREF(c->getcurrent); Py_XDECREF(c->current);
    Py_XDECREF(c->hub); Py_XDECREF(c->checks); Py_XDECREF(c->settings); Py_XDECREF(c->tensor); Py_XDECREF(c->training); Py_XDECREF(c->fixed);
    Py_TYPE(c)->tp_free((PyObject *)c);
}
static int core_init(CoreObject *c, PyObject *args, PyObject *kw) {
    PyObject *lazy, *input, *grad, *autocast, *components, *tensor, *fixed;
    if (!PyArg_ParseTuple(args, "OOOOOOO!", &lazy, &input, &grad, &autocast, &components, &tensor, &PyTuple_Type, &fixed))
        return -1;
    c->tensor = tensor; Py_INCREF(tensor);
    c->training = PyUnicode_InternFromString("training");
    if (!c->training) return -1;
    c->fixed = fixed; Py_INCREF(fixed);
    c->entries = PyDict_New();
    c->lazy = (PyTypeObject *)lazy; Py_INCREF(lazy);
    c->input = input; Py_INCREF(input);
    c->grad_enabled = grad; Py_INCREF(grad);
    c->autocast = autocast; Py_INCREF(autocast);
    c->components = components; Py_INCREF(components);
    c->lane = -1;
    return c->entries ? 0 : -1;
}

static PyObject *new_lazy(CoreObject *c, Py_ssize_t slot, PyObject *meta, PyObject *extra) {
    LazyObject *x = (LazyObject *)c->lazy->tp_alloc(c->lazy, 0);
    if (!x) return NULL;
    memcpy(x->as_tensor, tensor_words, sizeof(tensor_words));
    x->slot = slot; x->lane = c->lane;
    Py_INCREF(meta); x->meta = meta;
    Py_INCREF(extra); x->extra = extra;
    return (PyObject *)x;
}

/* slots that no node makes */
static Py_ssize_t take(CoreObject *c, Py_ssize_t rows) {
    if (rows == 0) rows = 1;
    Py_ssize_t base = c->next;
    if (grow_slots(c, base + rows)) return -1;
    for (Py_ssize_t i = base; i < base + rows; i++) { c->owner[i] = -1; c->row_of[i] = -1; }
    c->next = base + rows;
    return base;
}
static PyObject *core_take(CoreObject *c, PyObject *arg) {
    Py_ssize_t rows = PyLong_AsSsize_t(arg);
    Py_ssize_t base = rows < 0 ? -1 : take(c, rows);
    return base < 0 ? NULL : PyLong_FromSsize_t(base);
}

/* inputs(metas) -> a value for each example, whose numbers come from outside */
static PyObject *core_inputs(CoreObject *c, PyObject *metas) {
    PyObject *fast = PySequence_Fast(metas, "metas"), *res = NULL;
    if (!fast) return NULL;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
    res = PyList_New(n);
    for (Py_ssize_t i = 0; res && i < n; i++) {
        MetaObject *m = (MetaObject *)PySequence_Fast_GET_ITEM(fast, i);
        Py_ssize_t base = take(c, m->rows);
        LazyObject *x = base < 0 ? NULL : (LazyObject *)new_lazy(c, base, (PyObject *)m, c->input);
        if (!x) { Py_CLEAR(res); break; }
        x->lane = c->base + i;
        PyList_SET_ITEM(res, i, (PyObject *)x);
    }
    Py_DECREF(fast);
    return res;
}

static Py_ssize_t add_node(CoreObject *c, int sig, int length, Py_ssize_t rows, int n_in) {
    if (rows == 0) rows = 1;
    if (c->on_node && c->on_node != Py_None) {
        PyObject *done = PyObject_CallNoArgs(c->on_node);
        if (!done) return -1;
        Py_DECREF(done);
    }
    Py_ssize_t base = c->next;
    if (grow_slots(c, base + rows)) return -1;
    if (grow((void **)&c->nodes, &c->cap_nodes, c->n_nodes + 1, sizeof(Node))) return -1;
    if (grow((void **)&c->ins, &c->cap_ins, c->n_ins + n_in, sizeof(int32_t))) return -1;
    for (Py_ssize_t i = base; i < base + rows; i++) { c->owner[i] = (int32_t)c->n_nodes; c->row_of[i] = -1; }
    c->nodes[c->n_nodes++] = (Node){sig, length, (int)base, (int)c->n_ins, n_in, (int)(c->lane - c->base)};
    c->n_ins += n_in;
    c->next = base + rows;
    return base;
}

/* put(sig, length, flat input slots, rows) -> first output slot */
static PyObject *core_put(CoreObject *c, PyObject *args) {
    int sig, length; Py_ssize_t rows; PyObject *ins;
    if (!PyArg_ParseTuple(args, "iiO!n", &sig, &length, &PyTuple_Type, &ins, &rows)) return NULL;
    int n = (int)PyTuple_GET_SIZE(ins);
    Py_ssize_t base = add_node(c, sig, length, rows, n);
    if (base < 0) return NULL;
    int32_t *p = c->ins + c->nodes[c->n_nodes - 1].ins;
    for (int i = 0; i < n; i++) p[i] = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(ins, i));
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromSsize_t(base);
}

static PyObject *outputs(CoreObject *c, EntryObject *e, Py_ssize_t base) {
    if (e->single) return new_lazy(c, base, PyTuple_GET_ITEM(e->metas, 0), Py_None);
    PyObject *res = PyTuple_New(e->n_out);
    if (!res) return NULL;
    for (int i = 0; i < e->n_out; i++) {
        PyObject *x = new_lazy(c, base + e->offs[i], PyTuple_GET_ITEM(e->metas, i), Py_None);
        if (!x) { Py_DECREF(res); return NULL; }
        PyTuple_SET_ITEM(res, i, x);
    }
    if (e->wrap == Py_None) return res;
    PyObject *w = PyObject_CallOneArg(e->wrap, res);
    Py_DECREF(res);
    return w;
}

/* record(entry, tuple of lazies) */
static PyObject *core_record(CoreObject *c, PyObject *const *args, Py_ssize_t nargs) {
    EntryObject *e = (EntryObject *)args[0];
    PyObject *seq = args[1];
    Py_ssize_t n = PySequence_Fast_GET_SIZE(seq);
    Py_ssize_t base = add_node(c, e->sig, e->length, e->rows, (int)n);
    if (base < 0) return NULL;
    int32_t *p = c->ins + c->nodes[c->n_nodes - 1].ins;
    for (Py_ssize_t i = 0; i < n; i++) p[i] = (int32_t)((LazyObject *)PySequence_Fast_GET_ITEM(seq, i))->slot;
    return outputs(c, e, base);
}
