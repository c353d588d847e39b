/* Calls as numbers: the one lookup that finds a call seen before. */
/* A value that may be used as it is: of this lane, and not through a tensor view of something written. */
static int usable(CoreObject *c, PyObject *a) {
    if (Py_TYPE(a) != c->lazy) return 0;
    LazyObject *x = (LazyObject *)a;
    if (x->lane != c->lane) return 0;
    PyObject *e = x->extra;
    if (e == Py_None || e == c->input) return 1;
    if (Py_TYPE(e) != c->lazy) return 0;
    e = ((LazyObject *)e)->extra;
    return e == Py_None || e == c->input;
}

/* A call as numbers: objects that cannot change stand for themselves by their address, values by their meta, Python
 * numbers by their bits, and containers by what is in them. Two calls with equal numbers are the same call. */
#define MOST 24
#define WORDS 56
#define LINES 16384   /* more calls than that are not of a few kinds: they take the long way */
typedef struct { int k, m, consts; uint64_t words[WORDS]; LazyObject *lazies[MOST]; PyObject *keep[WORDS]; } Call;

static int put_object(Call *q, PyObject *a) {
    if (q->k >= WORDS) return 0;
    q->keep[q->k] = a;
    q->words[q->k++] = (uint64_t)(uintptr_t)a;
    return 1;
}
static int put_number(Call *q, PyObject *type, uint64_t bits) {
    if (q->k + 2 > WORDS || !put_object(q, type)) return 0;
    q->keep[q->k] = NULL;
    q->words[q->k++] = bits;
    return 1;
}
static int describe(CoreObject *c, Call *q, PyObject *a) {
    PyTypeObject *t = Py_TYPE(a);
    if (t == c->lazy) {
        if (q->consts && Py_TYPE(((LazyObject *)a)->extra) == (PyTypeObject *)const_type) {
            PyObject *row = PyObject_GetAttr(((LazyObject *)a)->extra, s_row);
            if (!row) { PyErr_Clear(); return 0; }
            Py_DECREF(row);                              /* the constant keeps it */
            if (Py_TYPE(row) != c->lazy || q->m >= MOST) return 0;
            q->lazies[q->m++] = (LazyObject *)row;
            return put_object(q, ((LazyObject *)row)->meta);
        }
        if (q->m >= MOST || !usable(c, a)) return 0;
        q->lazies[q->m++] = (LazyObject *)a;
        return put_object(q, ((LazyObject *)a)->meta);
    }
    if (a == Py_None || a == Py_True || a == Py_False) return put_object(q, a);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(c->fixed); i++)
        if ((PyObject *)t == PyTuple_GET_ITEM(c->fixed, i)) return put_object(q, a);
    if (t == &PyFloat_Type) {
        double value = PyFloat_AS_DOUBLE(a);
        uint64_t bits;
        memcpy(&bits, &value, sizeof(bits));
        return put_number(q, (PyObject *)t, bits);
    }
    if (t == &PyLong_Type) {
        int over;
        long long value = PyLong_AsLongLongAndOverflow(a, &over);
        return !over && put_number(q, (PyObject *)t, (uint64_t)value);
    }
    if ((t == &PyTuple_Type || t == &PyList_Type) && PySequence_Fast_GET_SIZE(a) < WORDS) {
        if (!put_number(q, (PyObject *)t, (uint64_t)PySequence_Fast_GET_SIZE(a))) return 0;
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(a); i++)
            if (!describe(c, q, PySequence_Fast_GET_ITEM(a, i))) return 0;
        return 1;
    }
    return 0;
}
/* 1: the whole call is described; 0: it is not of a kind that can be; -1: error */
static int describe_call(CoreObject *c, Call *q, PyObject *key, PyObject *flag, PyObject *owner, PyObject *const *items,
                         Py_ssize_t n, PyObject *kw) {
    if (c->cast) {                                       /* under autocast the dtype matters too: the long way */
        PyObject *cast = PyObject_CallNoArgs(c->autocast);
        if (!cast) return -1;
        Py_DECREF(cast);
        if (cast == Py_True) return 0;
    }
    PyObject *grad = PyObject_CallNoArgs(c->grad_enabled);
    if (!grad) return -1;
    Py_DECREF(grad);                                     /* True or False: they stay */
    q->k = q->m = 0;
    q->consts = !PyUnicode_CheckExact(key);              /* an op may take a constant as it is; a cell takes its row */
    put_object(q, grad);
    if (PyTuple_CheckExact(key)) {                       /* (module, word) */
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++)
            if (!put_object(q, PyTuple_GET_ITEM(key, i))) return 0;
    } else put_object(q, key);
    if (PyTuple_CheckExact(flag)) { if (!describe(c, q, flag)) return 0; } else put_object(q, flag);
    put_object(q, owner ? owner : Py_None);
    for (Py_ssize_t i = 0; i < n; i++) if (!describe(c, q, items[i])) return 0;
    if (kw) {
        PyObject *name, *value; Py_ssize_t pos = 0;
        put_number(q, (PyObject *)&PyDict_Type, 0);
        while (PyDict_Next(kw, &pos, &name, &value)) if (!put_object(q, name) || !describe(c, q, value)) return 0;
    }
    return 1;
}
static uint64_t hash_of(const Call *q) {
    uint64_t h = (uint64_t)q->k;
    for (int i = 0; i < q->k; i++) { h = (h ^ q->words[i]) * 0x9E3779B97F4A7C15u; h ^= h >> 29; }
    return h ? h : 1;                                    /* 0 marks an empty line */
}
static Line *line_of(CoreObject *c, const Call *q, uint64_t hash) {
    if (!c->cap_lines) return NULL;
    for (Py_ssize_t i = hash & (c->cap_lines - 1);; i = (i + 1) & (c->cap_lines - 1)) {
        Line *line = &c->lines[i];
        if (!line->hash || (line->hash == hash && line->k == q->k
                            && !memcmp(line->words, q->words, q->k * sizeof(uint64_t)))) return line;
    }
}
static PyObject *again(CoreObject *c, PyObject *found, const Call *q) {
    if (Py_TYPE(found) == c->lazy) {                     /* a constant: every example gets a handle of its own */
        LazyObject *x = (LazyObject *)found;
        return new_lazy(c, x->slot, x->meta, Py_None);
    }
    EntryObject *e = (EntryObject *)found;
    Py_ssize_t base = add_node(c, e->sig, e->length, e->rows, q->m);
    if (base < 0) return NULL;
    int32_t *p = c->ins + c->nodes[c->n_nodes - 1].ins;
    for (int j = 0; j < q->m; j++) p[j] = (int32_t)q->lazies[j]->slot;
    return outputs(c, e, base);
}
static PyObject *call_again(CoreObject *c, PyObject *key, PyObject *flag, PyObject *owner, PyObject *const *items,
                            Py_ssize_t n, PyObject *kw) {
    Call q;
    int ok = describe_call(c, &q, key, flag, owner, items, n, kw);
    if (ok < 0) return NULL;
    if (ok) {
        Line *line = line_of(c, &q, hash_of(&q));
        if (line && line->hash) return again(c, line->found, &q);
    }
    Py_RETURN_NOTIMPLEMENTED;
}
static PyObject *training_of(CoreObject *c, PyObject *owner) {
    PyObject *training = PyObject_GenericGetAttr(owner, c->training);   /* nn.Module has it in its dictionary */
    if (!training) { PyErr_Clear(); Py_RETURN_NONE; }
    return training;
}
/* call(key, flag, args, method, kwargs) -> results of a call seen before, or NotImplemented; a method's first argument is
 * its owner, and `training` of the owner its flag */
static PyObject *core_call(CoreObject *c, PyObject *const *args, Py_ssize_t nargs) {
    PyObject *items = args[2], *flag = args[1], *owner = NULL, *kw = nargs > 4 && args[4] != Py_None ? args[4] : NULL;
    PyObject *const *first = &PyTuple_GET_ITEM(items, 0);
    Py_ssize_t n = PyTuple_GET_SIZE(items);
    if (nargs > 3 && args[3] == Py_True) {
        owner = *first++; n--;
        flag = training_of(c, owner);
        if (!flag) return NULL;
    } else Py_INCREF(flag);
    PyObject *res = call_again(c, args[0], flag, owner, first, n, kw && PyDict_GET_SIZE(kw) ? kw : NULL);
    Py_DECREF(flag);
    return res;
}
/* remember(key, flag, owner, args, kwargs, values, entry or constant): the next such call is found by `call`, if the core
 * can describe it and if `values` are the only ones that the call depends on */
static PyObject *core_remember(CoreObject *c, PyObject *const *args, Py_ssize_t nargs) {
    Call q;
    PyObject *items = args[3], *kw = PyDict_GET_SIZE(args[4]) ? args[4] : NULL, *values = args[5];
    int ok = describe_call(c, &q, args[0], args[1], args[2] == Py_None ? NULL : args[2], &PyTuple_GET_ITEM(items, 0),
                           PyTuple_GET_SIZE(items), kw);
    if (ok < 0) return NULL;
    if (!ok || q.m != PySequence_Fast_GET_SIZE(values) || c->n_lines >= LINES) Py_RETURN_NONE;
    for (int i = 0; i < q.m; i++) {
        PyObject *x = PySequence_Fast_GET_ITEM(values, i);
        if (Py_TYPE(x) != c->lazy || ((LazyObject *)x)->slot != q.lazies[i]->slot) Py_RETURN_NONE;
    }
    if (2 * (c->n_lines + 1) > c->cap_lines) {
        Py_ssize_t cap = c->cap_lines ? 2 * c->cap_lines : 64;
        Line *more = PyMem_Calloc(cap, sizeof(Line));
        if (!more) return PyErr_NoMemory();
        for (Py_ssize_t i = 0; i < c->cap_lines; i++) {
            if (!c->lines[i].hash) continue;
            Py_ssize_t j = c->lines[i].hash & (cap - 1);
            while (more[j].hash) j = (j + 1) & (cap - 1);
            more[j] = c->lines[i];
        }
        PyMem_Free(c->lines);
        c->lines = more; c->cap_lines = cap;
    }
    uint64_t hash = hash_of(&q);
    Line *line = line_of(c, &q, hash);
    if (line->hash) Py_RETURN_NONE;
    uint64_t *words = PyMem_Malloc(q.k * sizeof(uint64_t));
    PyObject *keep = PyTuple_New(q.k);                   /* an address means something while its object lives */
    if (!words || !keep) { PyMem_Free(words); Py_XDECREF(keep); return PyErr_NoMemory(); }
    memcpy(words, q.words, q.k * sizeof(uint64_t));
    for (int i = 0; i < q.k; i++) {
        PyObject *o = q.keep[i] ? q.keep[i] : Py_None;
        Py_INCREF(o);
        PyTuple_SET_ITEM(keep, i, o);
    }
    Py_INCREF(args[6]);
    *line = (Line){hash, q.k, words, keep, args[6]};
    c->n_lines++;
    Py_RETURN_NONE;
}
