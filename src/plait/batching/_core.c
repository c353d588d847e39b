/* The recording core: lazy values, the one dict lookup of a repeated call, waiting nodes, the plan of a flush.
 *
 * It touches only Python objects and integers, never PyTorch's C++ interface. `_core_py.py` is the same in Python:
 * the reference, and what runs where no compiler was there. Both are tested against each other. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- values */
typedef struct { PyObject_HEAD Py_ssize_t lead, rows; PyObject *row, *truth; char tracks, number; } MetaObject;
/* A value says that it is a Tensor, and some of PyTorch's functions believe it without a further look: they would read
 * what stands first in a Tensor, a pointer, from whatever stands here. So the first two words are those of a true tensor
 * (on "meta", without numbers): what takes it for one says so in an error, where it would crash. */
typedef struct { PyObject_HEAD uint64_t as_tensor[2]; Py_ssize_t slot, lane; PyObject *meta, *extra, *refs; } LazyObject;
static uint64_t tensor_words[2];       /* set by `install` */

static PyTypeObject MetaType, LazyType;
static PyObject *const_type, *s_row;   /* set by `install` and at the start */

static int meta_traverse(MetaObject *m, visitproc visit, void *arg) { Py_VISIT(m->row); Py_VISIT(m->truth); return 0; }
static int meta_clear(MetaObject *m) { Py_CLEAR(m->row); Py_CLEAR(m->truth); return 0; }
static void meta_dealloc(MetaObject *m) {
    PyObject_GC_UnTrack(m);
    Py_XDECREF(m->row);
    Py_XDECREF(m->truth);
    Py_TYPE(m)->tp_free((PyObject *)m);
}
static PyMemberDef meta_members[] = {
    {"lead", T_PYSSIZET, offsetof(MetaObject, lead), 0, "1 where the first dimension counts rows"},
    {"rows", T_PYSSIZET, offsetof(MetaObject, rows), 0, "rows of the space that hold the value"},
    {"tracks", T_BOOL, offsetof(MetaObject, tracks), 0, "requires_grad"},
    {"row", T_OBJECT, offsetof(MetaObject, row), 0, "meta of one row, once it was needed"},
    {"truth", T_OBJECT, offsetof(MetaObject, truth), 0, "meta of a comparison of the value with a number"},
    {"number", T_BYTE, offsetof(MetaObject, number), 0, "one number: 1 float32, 2 float64, 3 whole; else 0"},
    {NULL}};
static PyTypeObject MetaType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait.batching._core.MetaBase", .tp_basicsize = sizeof(MetaObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, .tp_new = PyType_GenericNew,
    .tp_dealloc = (destructor)meta_dealloc, .tp_traverse = (traverseproc)meta_traverse, .tp_clear = (inquiry)meta_clear,
    .tp_members = meta_members};

static void lazy_dealloc(LazyObject *x) {
    if (x->refs) PyObject_ClearWeakRefs((PyObject *)x);
    Py_XDECREF(x->meta);
    Py_XDECREF(x->extra);
    Py_TYPE(x)->tp_free((PyObject *)x);
}
static PyMemberDef lazy_members[] = {
    {"slot", T_PYSSIZET, offsetof(LazyObject, slot), 0, "first row, as a number that names it before it exists"},
    {"lane", T_PYSSIZET, offsetof(LazyObject, lane), 0, "the example that made it"},
    {"meta", T_OBJECT, offsetof(LazyObject, meta), 0, "shape, dtype, device"},
    {"extra", T_OBJECT, offsetof(LazyObject, extra), 0, "what else is known: a view of, written, constant"},
    {NULL}};
static int lazy_init(LazyObject *x, PyObject *args, PyObject *kw) {
    PyObject *meta, *extra;
    if (!PyArg_ParseTuple(args, "nOnO", &x->slot, &meta, &x->lane, &extra)) return -1;
    Py_INCREF(meta); Py_XSETREF(x->meta, meta);
    Py_INCREF(extra); Py_XSETREF(x->extra, extra);
    memcpy(x->as_tensor, tensor_words, sizeof(tensor_words));
    return 0;
}
static PyObject *lazy_compare(PyObject *, PyObject *, int);
static PyObject *lazy_rows(PyObject *);
static PyObject *lazy_item(PyObject *, PyObject *);
static PyNumberMethods lazy_number;
static PyMappingMethods lazy_mapping;
static PyTypeObject LazyType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait.batching._core.LazyBase", .tp_basicsize = sizeof(LazyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_new = PyType_GenericNew, .tp_init = (initproc)lazy_init,
    .tp_dealloc = (destructor)lazy_dealloc, .tp_weaklistoffset = offsetof(LazyObject, refs), .tp_members = lazy_members, .tp_richcompare = lazy_compare,
    .tp_as_number = &lazy_number, .tp_as_mapping = &lazy_mapping, .tp_iter = lazy_rows};   /* and lazy_methods, see the end */

/* a comparison that nobody has needed as a tensor yet */
typedef struct { PyObject_HEAD PyObject *name, *value, *other; int op; } TestObject;
static PyTypeObject TestType;
static void test_dealloc(TestObject *t) {
    Py_XDECREF(t->name); Py_XDECREF(t->value); Py_XDECREF(t->other);
    Py_TYPE(t)->tp_free((PyObject *)t);
}
static int test_init(TestObject *t, PyObject *args, PyObject *kw) {
    PyObject *name, *value, *other;
    if (!PyArg_ParseTuple(args, "UOO", &name, &value, &other)) return -1;
    Py_INCREF(name); Py_XSETREF(t->name, name);
    Py_INCREF(value); Py_XSETREF(t->value, value);
    Py_INCREF(other); Py_XSETREF(t->other, other);
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return -1;
    t->op = text[0] == 'l' ? (text[1] == 't' ? Py_LT : Py_LE) : (text[1] == 't' ? Py_GT : Py_GE);
    return 0;
}
static PyMemberDef test_members[] = {
    {"name", T_OBJECT, offsetof(TestObject, name), READONLY, "lt, le, gt or ge"},
    {"value", T_OBJECT, offsetof(TestObject, value), READONLY, "what is compared"},
    {"other", T_OBJECT, offsetof(TestObject, other), READONLY, "with which number"}, {NULL}};
static PyTypeObject TestType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait.batching._core.Test", .tp_basicsize = sizeof(TestObject),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = PyType_GenericNew, .tp_init = (initproc)test_init,
    .tp_dealloc = (destructor)test_dealloc, .tp_members = test_members};

/* ---------------------------------------------------------------- entries */
typedef struct { PyObject_HEAD int sig, length, rows, n_out, single; int *offs; PyObject *metas, *wrap; } EntryObject;
static PyTypeObject EntryType;

static void entry_dealloc(EntryObject *e) {
    PyMem_Free(e->offs);
    Py_XDECREF(e->metas);
    Py_XDECREF(e->wrap);
    Py_TYPE(e)->tp_free((PyObject *)e);
}
static int entry_init(EntryObject *e, PyObject *args, PyObject *kw) {
    PyObject *offs, *metas, *wrap;
    if (!PyArg_ParseTuple(args, "iiiO!O!iO", &e->sig, &e->length, &e->rows, &PyTuple_Type, &offs, &PyTuple_Type, &metas,
                          &e->single, &wrap)) return -1;
    e->n_out = (int)PyTuple_GET_SIZE(metas);
    e->offs = PyMem_Malloc(sizeof(int) * (e->n_out + 1));
    if (!e->offs) { PyErr_NoMemory(); return -1; }
    for (int i = 0; i < e->n_out; i++) e->offs[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(offs, i));
    Py_INCREF(metas); Py_XSETREF(e->metas, metas);
    Py_INCREF(wrap); Py_XSETREF(e->wrap, wrap);
    return PyErr_Occurred() ? -1 : 0;
}
static PyMemberDef entry_members[] = {{"sig", T_INT, offsetof(EntryObject, sig), READONLY, "its signature"}, {NULL}};
static PyTypeObject EntryType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait.batching._core.Entry", .tp_basicsize = sizeof(EntryObject),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = PyType_GenericNew, .tp_init = (initproc)entry_init,
    .tp_dealloc = (destructor)entry_dealloc, .tp_members = entry_members};

/* ---------------------------------------------------------------- core */
typedef struct { int gather, ragged, n_in, n_out, scc, n_pred, cap_pred; int *in_rows, *out_rows, *out_space, *preds; } Sig;
typedef struct { int sig, length, out, ins, n_in, lane; } Node;
typedef struct { uint64_t hash; int k; uint64_t *words; PyObject *keep, *found; } Line;   /* a call seen before */

typedef struct {
    PyObject_HEAD
    PyObject *entries, *input, *grad_enabled, *autocast, *components, *tensor, *fixed, *training, *on_node;
    PyTypeObject *lazy;
    PyObject *pause, *waiting, *getcurrent, *current, *hub, *checks;   /* how an example waits: see wait_for */
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
    Py_XDECREF(c->hub); Py_XDECREF(c->checks); Py_XDECREF(c->tensor); Py_XDECREF(c->training); Py_XDECREF(c->fixed);
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

/* 1 if a row of a tracked value would be taken without gradients now: the slow path knows what to do */
static int untracked(CoreObject *c, MetaObject *m) {
    if (!m->tracks) return 0;
    PyObject *grad = PyObject_CallNoArgs(c->grad_enabled);
    if (!grad) { PyErr_Clear(); return 1; }
    int off = grad != Py_True;
    Py_DECREF(grad);
    return off;
}

/* rows(x) -> tuple of all rows of x, or NotImplemented */
static PyObject *core_rows(CoreObject *c, PyObject *a) {
    if (!usable(c, a)) Py_RETURN_NOTIMPLEMENTED;
    LazyObject *x = (LazyObject *)a;
    MetaObject *m = (MetaObject *)x->meta;
    if (!m->lead || !m->row || m->row == Py_None || untracked(c, m)) Py_RETURN_NOTIMPLEMENTED;
    PyObject *root = x->extra == Py_None || x->extra == c->input ? a : x->extra;
    PyObject *res = PyTuple_New(m->rows);
    if (!res) return NULL;
    for (Py_ssize_t i = 0; i < m->rows; i++) {
        PyObject *r = new_lazy(c, x->slot + i, m->row, root);
        if (!r) { Py_DECREF(res); return NULL; }
        PyTuple_SET_ITEM(res, i, r);
    }
    return res;
}

/* row(x, i) -> x[i], or NotImplemented */
static PyObject *core_row(CoreObject *c, PyObject *const *args, Py_ssize_t nargs) {
    PyObject *a = args[0];
    if (!PyLong_CheckExact(args[1]) || !usable(c, a)) Py_RETURN_NOTIMPLEMENTED;
    LazyObject *x = (LazyObject *)a;
    MetaObject *m = (MetaObject *)x->meta;
    Py_ssize_t i = PyLong_AsSsize_t(args[1]);
    if (i == -1 && PyErr_Occurred()) return NULL;
    if (i < 0) i += m->rows;
    if (!m->lead || !m->row || m->row == Py_None || i < 0 || i >= m->rows || untracked(c, m)) Py_RETURN_NOTIMPLEMENTED;
    return new_lazy(c, x->slot + i, m->row, x->extra == Py_None || x->extra == c->input ? a : x->extra);
}

/* stacked(sig, values, lead, space) -> flat (slot, rows) inputs if all may be used as they are and have one space */
static PyObject *core_parts(CoreObject *c, PyObject *const *args, Py_ssize_t nargs) {
    PyObject *seq = args[0];
    Py_ssize_t n = PySequence_Fast_GET_SIZE(seq);
    PyObject *first = NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *a = PySequence_Fast_GET_ITEM(seq, i);
        if (!usable(c, a)) Py_RETURN_NOTIMPLEMENTED;
        PyObject *m = ((LazyObject *)a)->meta;
        if (!first) first = m;
        else if (m != first) Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *res = PyTuple_New(2 * n);
    if (!res) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        LazyObject *x = (LazyObject *)PySequence_Fast_GET_ITEM(seq, i);
        PyTuple_SET_ITEM(res, 2 * i, PyLong_FromSsize_t(x->slot));
        PyTuple_SET_ITEM(res, 2 * i + 1, PyLong_FromSsize_t(((MetaObject *)x->meta)->rows));
    }
    return res;
}

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
    PyMem_Free(todo); PyMem_Free(ids); PyMem_Free(at); PyMem_Free(level); PyMem_Free(group); PyMem_Free(items); PyMem_Free(want);
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

/* join(values, lead) -> one value that is all their rows, if they are alike and such a join was seen before */
static PyObject *core_join(CoreObject *c, PyObject *const *args, Py_ssize_t nargs) {
    PyObject *seq = args[0];
    if (!PyList_CheckExact(seq) && !PyTuple_CheckExact(seq)) Py_RETURN_NOTIMPLEMENTED;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(seq);
    if (n == 0) Py_RETURN_NOTIMPLEMENTED;
    PyObject *first = NULL;
    long lead = PyLong_AsLong(args[1]);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *a = PySequence_Fast_GET_ITEM(seq, i);
        if (!usable(c, a)) Py_RETURN_NOTIMPLEMENTED;
        PyObject *m = ((LazyObject *)a)->meta;
        if (!first) {
            first = m;
            if (((MetaObject *)m)->lead != lead || Py_TYPE(((LazyObject *)a)->extra) == c->lazy) Py_RETURN_NOTIMPLEMENTED;
        } else if (m != first) Py_RETURN_NOTIMPLEMENTED;
    }
    Py_ssize_t rows = ((MetaObject *)first)->rows, total = rows * n;
    PyObject *grad = PyObject_CallNoArgs(c->grad_enabled);
    if (!grad) return NULL;
    PyObject *key = Py_BuildValue("(OnO)", first, total, grad);
    Py_DECREF(grad);
    if (!key) return NULL;
    EntryObject *e = (EntryObject *)PyDict_GetItemWithError(c->entries, key);
    Py_DECREF(key);
    if (!e) { if (PyErr_Occurred()) return NULL; Py_RETURN_NOTIMPLEMENTED; }
    Py_ssize_t base = add_node(c, e->sig, (int)total, total, (int)(2 * n));
    if (base < 0) return NULL;
    int32_t *p = c->ins + c->nodes[c->n_nodes - 1].ins;
    for (Py_ssize_t i = 0; i < n; i++) {
        p[2 * i] = (int32_t)((LazyObject *)PySequence_Fast_GET_ITEM(seq, i))->slot;
        p[2 * i + 1] = (int32_t)rows;
    }
    return outputs(c, e, base);
}

/* has_tensor(x): whether a tensor is anywhere in nested tuples, lists and dicts */
static int has_tensor(CoreObject *c, PyObject *x) {
    if (PyLong_CheckExact(x) || PyUnicode_CheckExact(x) || x == Py_None || PyFloat_CheckExact(x)) return 0;
    if (PyTuple_Check(x) || PyList_CheckExact(x)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); i++) {
            if (Py_EnterRecursiveCall(" in an example")) return -1;
            int r = has_tensor(c, PySequence_Fast_GET_ITEM(x, i));
            Py_LeaveRecursiveCall();
            if (r) return r;
        }
        return 0;
    }
    if (PyDict_CheckExact(x)) {
        PyObject *k, *v; Py_ssize_t pos = 0;
        while (PyDict_Next(x, &pos, &k, &v)) {
            if (Py_EnterRecursiveCall(" in an example")) return -1;
            int r = has_tensor(c, v);
            Py_LeaveRecursiveCall();
            if (r) return r;
        }
        return 0;
    }
    return PyObject_IsInstance(x, c->tensor);
}
static PyObject *core_has_tensor(CoreObject *c, PyObject *x) {
    int r = has_tensor(c, x);
    return r < 0 ? NULL : PyBool_FromLong(r);
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

/* ---------------------------------------------------------------- what the example's code does most
 * `here` is the core of the lanes that run in this thread; NULL while nothing runs, in a flush, and in a trace. Each of
 * these functions does the common case and leaves everything else to a method of the Python class. */
static _Thread_local CoreObject *here;
static PyObject *fast_names, *slow_dispatch, *ours, *site_here, *slow_handle, *modes_on, *set_autocast;   /* set by `install` */
static PyObject *s_add, *s_sub, *s_mul, *s_div, *s_matmul, *s_neg, *s_read, *s_compare, *s_operate, *s_truth, *s_slow,
    *s_stack, *s_cat, *s_switch, *s_unbound, *s_item, *s_list, *s_only, *s_ops[6];
static PyTypeObject CoreType;

static PyObject *module_use(PyObject *m, PyObject *core) {
    CoreObject *old = here;
    if (core != Py_None && !PyObject_TypeCheck(core, &CoreType)) {
        here = NULL;                                    /* the Python core: no short cuts */
    } else {
        here = core == Py_None ? NULL : (CoreObject *)core;
        Py_XINCREF(here);
    }
    Py_XDECREF(old);
    Py_RETURN_NONE;
}
static int find_functions(void);
static PyObject *module_install(PyObject *m, PyObject *args) {
    PyObject *a, *b, *c, *d, *e, *f, *g, *h;
    Py_buffer words;
    if (!PyArg_ParseTuple(args, "OOOOOOOOy*", &a, &b, &c, &d, &e, &f, &g, &h, &words)) return NULL;
    if (words.len == sizeof(tensor_words)) memcpy(tensor_words, words.buf, sizeof(tensor_words));
    PyBuffer_Release(&words);
    Py_INCREF(a); Py_XSETREF(fast_names, a);
    Py_INCREF(b); Py_XSETREF(slow_dispatch, b);
    Py_INCREF(c); Py_XSETREF(ours, c);
    Py_INCREF(d); Py_XSETREF(site_here, d);
    Py_INCREF(e); Py_XSETREF(slow_handle, e);
    Py_INCREF(f); Py_XSETREF(const_type, f);
    Py_INCREF(g); Py_XSETREF(modes_on, g);
    Py_INCREF(h); Py_XSETREF(set_autocast, h);
    if (find_functions()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *operate(PyObject *name, PyObject *a, PyObject *b) {
    PyObject *self = PyObject_TypeCheck(a, &LazyType) ? a : b;
    if (here) {
        PyObject *const items[] = {a, b};
        PyObject *res = call_again(here, name, Py_None, NULL, items, b ? 2 : 1, NULL);
        if (res != Py_NotImplemented) return res;
        Py_DECREF(res);
    }
    PyObject *args = b ? PyTuple_Pack(2, a, b) : PyTuple_Pack(1, a);
    if (!args) return NULL;
    PyObject *res = PyObject_CallMethodObjArgs(self, s_operate, name, args, NULL);
    Py_DECREF(args);
    return res;
}
/* sums and products have the tensor first, as `Tensor.__radd__` does */
static PyObject *lazy_add(PyObject *a, PyObject *b) {
    return PyObject_TypeCheck(a, &LazyType) ? operate(s_add, a, b) : operate(s_add, b, a);
}
static PyObject *lazy_mul(PyObject *a, PyObject *b) {
    return PyObject_TypeCheck(a, &LazyType) ? operate(s_mul, a, b) : operate(s_mul, b, a);
}
static PyObject *lazy_sub(PyObject *a, PyObject *b) { return operate(s_sub, a, b); }
static PyObject *lazy_div(PyObject *a, PyObject *b) { return operate(s_div, a, b); }
static PyObject *lazy_matmul(PyObject *a, PyObject *b) { return operate(s_matmul, a, b); }
static PyObject *lazy_neg(PyObject *a) { return operate(s_neg, a, NULL); }

/* for row in x; x[t] */
static PyObject *lazy_rows(PyObject *a) {
    if (here) {
        PyObject *rows = core_rows(here, a);
        if (!rows) return NULL;
        PyObject *res = rows == Py_NotImplemented ? NULL : PyObject_GetIter(rows);
        int known = rows != Py_NotImplemented;
        Py_DECREF(rows);
        if (known) return res;
    }
    return PyObject_CallMethodNoArgs(a, s_unbound);
}
static PyObject *lazy_item(PyObject *a, PyObject *index) {
    if (here && PyLong_CheckExact(index)) {
        PyObject *const items[] = {a, index};
        PyObject *row = core_row(here, items, 2);
        if (row != Py_NotImplemented) return row;
        Py_DECREF(row);
    }
    return PyObject_CallMethodOneArg(a, s_item, index);
}
static PyMappingMethods lazy_mapping = {.mp_subscript = lazy_item};

/* x < 3: only an `if` will ask, so no call is made for it */
static PyObject *lazy_compare(PyObject *a, PyObject *b, int op) {
    LazyObject *x = (LazyObject *)a;
    CoreObject *c = here;
    if (c && op != Py_EQ && op != Py_NE && !c->plain && usable(c, a)) {
        MetaObject *m = (MetaObject *)x->meta;
        PyObject *e = x->extra;
        if (m->number && (PyLong_CheckExact(b) || (PyFloat_CheckExact(b) && m->number < 3)) && m->truth
            && m->truth != Py_None) {
            TestObject *t = (TestObject *)TestType.tp_alloc(&TestType, 0);
            if (!t) return NULL;
            t->value = new_lazy(c, x->slot, x->meta, e == c->input ? e : Py_None);
            if (!t->value) { Py_DECREF(t); return NULL; }
            t->name = s_ops[op]; Py_INCREF(t->name);
            t->other = b; Py_INCREF(b);
            t->op = op;
            PyObject *res = new_lazy(c, -1, m->truth, (PyObject *)t);
            Py_DECREF(t);
            return res;
        }
    }
    return PyObject_CallMethodObjArgs(a, s_compare, s_ops[op], b, NULL);
}

/* Whose turn it is of those that have their answers; NULL if it is nobody's. */
static PyObject *take_turn(CoreObject *c, PyObject **answer) {
    if (!c->resuming || c->turn >= PyList_GET_SIZE(c->resuming)) return NULL;
    PyObject *entry = PyList_GET_ITEM(c->resuming, c->turn), *next = PyTuple_GET_ITEM(entry, 1);
    *answer = PyList_GET_ITEM(c->answers, c->turn);      /* the lists stay as they are until all have had their turn */
    c->turn++;
    c->lane = PyLong_AsSsize_t(PyTuple_GET_ITEM(entry, 0));
    Py_INCREF(next);
    Py_INCREF(next);
    Py_XSETREF(c->current, next);
    return next;
}
static PyObject *core_resume(CoreObject *c, PyObject *args) {
    PyObject *resuming, *answers;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &resuming, &PyList_Type, &answers)) return NULL;
    Py_INCREF(resuming); Py_XSETREF(c->resuming, resuming);
    Py_INCREF(answers); Py_XSETREF(c->answers, answers);
    c->turn = 0;
    Py_RETURN_NONE;
}
static PyObject *core_turn(CoreObject *c, PyObject *none) {
    PyObject *answer = NULL, *next = take_turn(c, &answer);
    if (!next) { if (PyErr_Occurred()) return NULL; Py_RETURN_NONE; }
    return Py_BuildValue("(NO)", next, answer);
}

/* The code object and the offset of the instruction that runs, as one tuple that stays the same for the same place. */
#define SITES 256
static struct { PyObject *code; int at; PyObject *site; } sites[SITES];
static PyObject *site_now(void) {
    PyFrameObject *frame = PyEval_GetFrame();
    if (!frame) return PyObject_CallNoArgs(site_here);
    PyObject *code = (PyObject *)PyFrame_GetCode(frame);
    int at = PyFrame_GetLasti(frame);
    size_t k = (((uintptr_t)code >> 4) ^ (uintptr_t)at) % SITES;
    if (sites[k].code == code && sites[k].at == at) {    /* the tuple keeps the code alive */
        Py_DECREF(code);
        Py_INCREF(sites[k].site);
        return sites[k].site;
    }
    PyObject *known = PyDict_GetItemWithError(ours, code), *site = NULL;
    if (known == Py_False) site = Py_BuildValue("(Oi)", code, at);
    else if (!PyErr_Occurred()) site = PyObject_CallNoArgs(site_here);
    if (site && known == Py_False) {
        sites[k].code = code; sites[k].at = at;
        Py_INCREF(site);
        Py_XSETREF(sites[k].site, site);
    }
    Py_DECREF(code);
    return site;
}

/* Waits until the value is there: the example leaves, the hub runs the others and then what waits, and comes back with
 * the number. Everything that an example may have changed in this thread is looked at first; if it has, or if this is
 * not the example's own greenlet, the long way knows what to do. */
static PyObject *wait_for(CoreObject *c, PyObject *lazy) {
    PyObject *site = site_now();
    if (!site) return NULL;
    PyObject *request = PyTuple_Pack(3, s_read, lazy, site);
    Py_DECREF(site);
    if (!request) return NULL;
    int settled = c->waiting && PyList_CheckExact(c->waiting) && c->checks && PyTuple_CheckExact(c->checks) && !c->cast;
    for (Py_ssize_t i = 0; settled && i < PyTuple_GET_SIZE(c->checks); i += 2) {
        PyObject *now = PyObject_CallNoArgs(PyTuple_GET_ITEM(c->checks, i));
        if (!now) { Py_DECREF(request); return NULL; }
        settled = now == PyTuple_GET_ITEM(c->checks, i + 1);
        Py_DECREF(now);
    }
    PyObject *me = settled ? PyObject_CallNoArgs(c->getcurrent) : NULL;
    if (PyErr_Occurred()) { Py_DECREF(request); return NULL; }
    if (!me || me != c->current) {
        Py_XDECREF(me);
        PyObject *res = PyObject_CallOneArg(c->pause, request);
        Py_DECREF(request);
        return res;
    }
    PyObject *lane = PyLong_FromSsize_t(c->lane), *entry = lane ? PyTuple_New(3) : NULL;
    if (!entry) { Py_XDECREF(lane); Py_DECREF(me); Py_DECREF(request); return NULL; }
    PyTuple_SET_ITEM(entry, 0, lane); PyTuple_SET_ITEM(entry, 1, me); PyTuple_SET_ITEM(entry, 2, request);
    if (PyList_Append(c->waiting, entry)) { Py_DECREF(entry); return NULL; }
    Py_DECREF(entry);
    PyObject *answer = NULL, *next = take_turn(c, &answer);
    if (!next) return PyErr_Occurred() ? NULL : PyObject_CallNoArgs(c->hub);
    /* straight to the next example that has its answer: half the switches of the way through the hub */
    PyObject *res = PyObject_CallMethodOneArg(next, s_switch, answer);
    Py_DECREF(next);
    return res;
}

/* The number or numbers of a value that is one row and not there yet; NotImplemented if the long way must tell. */
static PyObject *ask(PyObject *a) {
    LazyObject *x = (LazyObject *)a;
    CoreObject *c = here;
    if (c && !c->plain && usable(c, a) && x->slot >= 0 && x->slot < c->next && c->row_of[x->slot] < 0
        && ((MetaObject *)x->meta)->rows == 1 && !((MetaObject *)x->meta)->lead) return wait_for(c, a);
    Py_RETURN_NOTIMPLEMENTED;
}
static PyObject *lazy_tolist(PyObject *a, PyObject *none) {
    PyObject *res = ask(a);
    if (res != Py_NotImplemented) return res;
    Py_DECREF(res);
    return PyObject_CallMethodNoArgs(a, s_list);
}
static PyObject *lazy_number_of(PyObject *a, PyObject *none) {
    if (((MetaObject *)((LazyObject *)a)->meta)->number) {
        PyObject *res = ask(a);
        while (res && PyList_CheckExact(res) && PyList_GET_SIZE(res) == 1) {
            PyObject *inner = PyList_GET_ITEM(res, 0);
            Py_INCREF(inner); Py_DECREF(res);
            res = inner;
        }
        if (res != Py_NotImplemented) return res;
        Py_DECREF(res);
    }
    return PyObject_CallMethodNoArgs(a, s_only);
}
static PyMethodDef lazy_methods[] = {
    {"tolist", lazy_tolist, METH_NOARGS, NULL}, {"item", lazy_number_of, METH_NOARGS, NULL}, {NULL}};

/* if x < 3: */
static int lazy_bool(PyObject *a) {
    LazyObject *x = (LazyObject *)a;
    CoreObject *c = here;
    if (c && !c->plain && Py_TYPE(x->extra) == &TestType && x->lane == c->lane) {
        TestObject *t = (TestObject *)x->extra;
        LazyObject *v = (LazyObject *)t->value;
        if (v->slot >= 0 && v->slot < c->next && c->row_of[v->slot] < 0) {
            PyObject *number = wait_for(c, t->value);
            while (number && PyList_CheckExact(number) && PyList_GET_SIZE(number) == 1) {
                PyObject *inner = PyList_GET_ITEM(number, 0);
                Py_INCREF(inner); Py_DECREF(number);
                number = inner;
            }
            if (!number) return -1;
            int res;
            if (((MetaObject *)v->meta)->number == 1 && PyFloat_CheckExact(t->other) && PyFloat_CheckExact(number)
                && PyFloat_AS_DOUBLE(t->other) < 3e38 && PyFloat_AS_DOUBLE(t->other) > -3e38) {
                double p = PyFloat_AS_DOUBLE(number), q = (double)(float)PyFloat_AS_DOUBLE(t->other);
                res = t->op == Py_LT ? p < q : t->op == Py_LE ? p <= q : t->op == Py_GT ? p > q : p >= q;
            } else res = PyObject_RichCompareBool(number, t->other, t->op);
            Py_DECREF(number);
            return res;
        }
    }
    PyObject *res = PyObject_CallMethodNoArgs(a, s_truth);
    if (!res) return -1;
    int truth = PyObject_IsTrue(res);
    Py_DECREF(res);
    return truth;
}
static PyNumberMethods lazy_number = {
    .nb_add = lazy_add, .nb_subtract = lazy_sub, .nb_multiply = lazy_mul, .nb_true_divide = lazy_div,
    .nb_matrix_multiply = lazy_matmul, .nb_negative = lazy_neg, .nb_bool = lazy_bool};

/* ---------------------------------------------------------------- functions of PyTorch */
/* The result of a call of a kind that was seen before, or NotImplemented. */
static PyObject *known_function(CoreObject *c, PyObject *func, PyObject *const *items, Py_ssize_t n, PyObject *kw) {
    PyObject *name = PyDict_GetItemWithError(fast_names, func), *flag = Py_None, *made = NULL;
    if (!name) {
        if (PyErr_Occurred()) PyErr_Clear();            /* a function that cannot be looked up */
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (Py_TYPE(name) == &PyTuple_Type) {               /* (name, default dtype?): makes a tensor from numbers */
        made = PyObject_CallNoArgs(PyTuple_GET_ITEM(name, 1));
        if (!made) return NULL;
        flag = made; name = PyTuple_GET_ITEM(name, 0);
    }
    PyObject *res = call_again(c, name, flag, NULL, items, n, kw);
    Py_XDECREF(made);
    if (res == Py_NotImplemented && !kw && n == 1 && (name == s_stack || name == s_cat)) {
        PyObject *const join[] = {items[0], name == s_cat ? Py_True : Py_False};
        Py_DECREF(res);
        res = core_join(c, join, 2);
    }
    return res;
}
/* Whether a call would come to the lanes' own mode first: 1, 0, or -1 for an error. */
static int no_other_mode(CoreObject *c) {
    if (!c || !c->checks || !PyTuple_CheckExact(c->checks)) return 0;
    Py_ssize_t last = PyTuple_GET_SIZE(c->checks) - 1;
    PyObject *depth = PyObject_CallNoArgs(PyTuple_GET_ITEM(c->checks, last - 1));
    if (!depth) return -1;
    Py_DECREF(depth);
    if (depth != PyTuple_GET_ITEM(c->checks, last)) return 0;
    PyObject *on = PyObject_CallNoArgs(modes_on);
    if (!on) return -1;
    Py_DECREF(on);
    return on == Py_True;
}
/* dispatch(mode, func, types, args, kwargs): what PyTorch calls while lanes run */
static PyObject *module_dispatch(PyObject *m, PyObject *const *args, Py_ssize_t nargs) {
    PyObject *func = args[1], *items = nargs > 3 ? args[3] : NULL, *kw = nargs > 4 ? args[4] : NULL;
    if (kw == Py_None || (kw && PyDict_CheckExact(kw) && PyDict_GET_SIZE(kw) == 0)) kw = NULL;
    if (here && items && PyTuple_CheckExact(items) && (!kw || PyDict_CheckExact(kw))) {
        PyObject *res = known_function(here, func, &PyTuple_GET_ITEM(items, 0), PyTuple_GET_SIZE(items), kw);
        if (res != Py_NotImplemented) return res;
        Py_DECREF(res);
    }
    PyObject *empty = items ? NULL : PyTuple_New(0), *none = kw ? NULL : PyDict_New();
    PyObject *res = PyObject_CallFunctionObjArgs(slow_dispatch, func, items ? items : empty, kw ? kw : none, NULL);
    Py_XDECREF(empty); Py_XDECREF(none);
    return res;
}

/* handle(function, relevant arguments, *args, **kwargs): in place of `torch.overrides.handle_torch_function` while lanes
 * run, which takes several microseconds to come to `dispatch`; only with no other mode than the lanes' own */
static PyObject *module_handle(PyObject *m, PyObject *args, PyObject *kw) {
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    CoreObject *c = here;
    int straight = n > 2 ? no_other_mode(c) : 0;
    if (straight < 0) return NULL;
    if (straight) {
        PyObject *res = known_function(c, PyTuple_GET_ITEM(args, 0), &PyTuple_GET_ITEM(args, 2), n - 2,
                                       kw && PyDict_GET_SIZE(kw) ? kw : NULL);
        if (res != Py_NotImplemented) return res;
        Py_DECREF(res);
    }
    return PyObject_Call(slow_handle, args, kw);
}

static PyObject *keywords(PyObject *const *values, PyObject *names) {
    PyObject *kw = names && PyTuple_GET_SIZE(names) ? PyDict_New() : NULL;
    for (Py_ssize_t i = 0; kw && i < PyTuple_GET_SIZE(names); i++)
        if (PyDict_SetItem(kw, PyTuple_GET_ITEM(names, i), values[i])) Py_CLEAR(kw);
    return kw;
}
static PyObject *plain_call(PyObject *func, PyObject *const *args, Py_ssize_t n, PyObject *kw) {
    PyObject *items = PyTuple_New(n), *res = NULL;
    if (!items) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) { Py_INCREF(args[i]); PyTuple_SET_ITEM(items, i, args[i]); }
    res = Py_TYPE(func)->tp_call(func, items, kw);
    Py_DECREF(items);
    return res;
}

/* What Python calls in place of a function of `torch` that is written in C, such as `torch.relu`, while lanes run: four
 * fifths of the time of such a call go by on its way through PyTorch to `dispatch`. The function itself stays the object
 * that it is (`act is torch.relu` holds); only its `vectorcall`, which PyTorch leaves empty, is set, and emptied at the
 * end. A call that the core does not know goes the way that it would have gone without. */
static PyObject *straight_call(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *names) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    PyObject *res = NULL, *kw = keywords(args + n, names);
    if (!kw && PyErr_Occurred()) return NULL;
    CoreObject *c = here;
    int straight = no_other_mode(c);
    if (straight < 0) goto end;
    if (straight) {
        res = known_function(c, func, args, n, kw);
        if (res != Py_NotImplemented) goto end;
        Py_CLEAR(res);
    }
    res = plain_call(func, args, n, kw);
end:
    Py_XDECREF(kw);
    return res;
}
/* The same for the function that sets autocast: until an example has called it, no call has to ask whether it is on. */
static PyObject *autocast_call(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *names) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    PyObject *kw = keywords(args + n, names);
    if (!kw && PyErr_Occurred()) return NULL;
    if (here) here->cast = 1;
    PyObject *res = plain_call(func, args, n, kw);
    Py_XDECREF(kw);
    return res;
}

static PyCFunctionObject **functions; static Py_ssize_t n_functions;   /* those of `install` that are written in C */
static int in_c(PyObject *func) {
    return PyCFunction_CheckExact(func) && (PyCFunction_GET_FLAGS(func) & ~METH_STATIC) == (METH_VARARGS | METH_KEYWORDS);
}
static int find_functions(void) {
    PyObject *func, *name; Py_ssize_t pos = 0;
    PyCFunctionObject **all = PyMem_Realloc(functions, (PyDict_GET_SIZE(fast_names) + 1) * sizeof(*all));
    if (!all) { PyErr_NoMemory(); return -1; }
    functions = all; n_functions = 0;
    while (PyDict_Next(fast_names, &pos, &func, &name))
        if (in_c(func)) functions[n_functions++] = (PyCFunctionObject *)func;
    return 0;
}

/* Python gives each greenlet a stack of its own, fresh from the system: as dear as twenty recorded calls. While lanes run
 * such blocks are kept for the next greenlet. They are what the allocator before had given, so either may free them. */
#define STACK (16 * 1024)
#define STACKS 128
static PyObjectArenaAllocator plainly;
static void *stacks[STACKS]; static int n_stacks;
static void *stack_alloc(void *ctx, size_t size) {
    return size == STACK && n_stacks ? stacks[--n_stacks] : plainly.alloc(plainly.ctx, size);
}
static void stack_free(void *ctx, void *block, size_t size) {
    if (size == STACK && n_stacks < STACKS) stacks[n_stacks++] = block; else plainly.free(plainly.ctx, block, size);
}
static PyObjectArenaAllocator keeping = {NULL, stack_alloc, stack_free};

/* straight(on): whether calls of the functions of `install` come here first, and stacks are kept */
static PyObject *module_straight(PyObject *m, PyObject *on) {
    PyObjectArenaAllocator now;
    PyObject_GetArenaAllocator(&now);
    if (on == Py_True && now.alloc != stack_alloc) { plainly = now; PyObject_SetArenaAllocator(&keeping); }
    if (on != Py_True && now.alloc == stack_alloc) PyObject_SetArenaAllocator(&plainly);
    for (Py_ssize_t i = 0; i < n_functions; i++) {
        vectorcallfunc *call = &functions[i]->vectorcall;
        if (on == Py_True ? !*call : *call == straight_call) *call = on == Py_True ? straight_call : NULL;
    }
    if (in_c(set_autocast)) ((PyCFunctionObject *)set_autocast)->vectorcall = on == Py_True ? autocast_call : NULL;
    Py_RETURN_NONE;
}

/* ---------------------------------------------------------------- cells */
typedef struct { PyObject_HEAD char method; } CellObject;
static PyMemberDef cell_members[] = {
    {"method", T_BOOL, offsetof(CellObject, method), 0, "defined in a class: the first argument is `self`"}, {NULL}};
static PyObject *cell_get(PyObject *self, PyObject *obj, PyObject *type) {
    if (!obj || obj == Py_None) { Py_INCREF(self); return self; }
    return PyMethod_New(self, obj);
}
static PyObject *cell_call(PyObject *self, PyObject *args, PyObject *kw) {
    if (here && (!kw || PyDict_GET_SIZE(kw) == 0) && PyTuple_GET_SIZE(args)) {
        PyObject *const call[] = {self, Py_None, args, ((CellObject *)self)->method ? Py_True : Py_False};
        PyObject *res = core_call(here, call, 4);
        if (res != Py_NotImplemented) return res;
        Py_DECREF(res);
    }
    PyObject *slow = PyObject_GetAttr(self, s_slow);
    if (!slow) return NULL;
    PyObject *res = PyObject_Call(slow, args, kw);
    Py_DECREF(slow);
    return res;
}
static PyTypeObject CellType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait.batching._core.CellBase", .tp_basicsize = sizeof(CellObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_new = PyType_GenericNew, .tp_members = cell_members,
    .tp_call = cell_call, .tp_descr_get = cell_get};

/* ---------------------------------------------------------------- modules and methods
 * What stands as `__call__` in the classes of torch.nn while lanes run; with a name, a method of values. */
typedef struct { PyObject_HEAD PyObject *slow, *name; vectorcallfunc call; } FastCallObject;
static PyTypeObject FastCallType;
static PyMemberDef fast_call_members[] = {
    {"slow", T_OBJECT, offsetof(FastCallObject, slow), 0, "the long way, called with the module or value first"}, {NULL}};
static PyObject *fast_call_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    FastCallObject *f = (FastCallObject *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (here && n && (!names || PyTuple_GET_SIZE(names) == 0)) {
        PyObject *res;
        if (f->name == Py_None) {
            PyObject *training = training_of(here, args[0]);
            if (!training) return NULL;
            res = call_again(here, args[0], training, NULL, args + 1, n - 1, NULL);
            Py_DECREF(training);
        } else res = call_again(here, f->name, Py_None, NULL, args, n, NULL);
        if (res != Py_NotImplemented) return res;
        Py_DECREF(res);
    }
    return PyObject_Vectorcall(f->slow, args, nargsf, names);
}
static int fast_call_init(FastCallObject *f, PyObject *args, PyObject *kw) {
    PyObject *slow, *name = Py_None;
    if (!PyArg_ParseTuple(args, "O|O", &slow, &name)) return -1;
    Py_INCREF(slow); Py_XSETREF(f->slow, slow);
    Py_INCREF(name); Py_XSETREF(f->name, name);
    f->call = fast_call_call;
    return 0;
}
static void fast_call_dealloc(FastCallObject *f) {
    Py_XDECREF(f->slow); Py_XDECREF(f->name);
    Py_TYPE(f)->tp_free((PyObject *)f);
}
static PyTypeObject FastCallType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait.batching._core.FastCall", .tp_basicsize = sizeof(FastCallObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = PyType_GenericNew, .tp_init = (initproc)fast_call_init, .tp_dealloc = (destructor)fast_call_dealloc,
    .tp_members = fast_call_members, .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(FastCallObject, call), .tp_descr_get = cell_get};

/* asked(waiting) -> (64-bit rows, meta, {place: count}) if all wait for values of one kind that are one row each; or None */
static PyObject *core_asked(CoreObject *c, PyObject *waiting) {
    if (!PyList_CheckExact(waiting) || PyList_GET_SIZE(waiting) == 0) Py_RETURN_NONE;
    Py_ssize_t n = PyList_GET_SIZE(waiting), run = 0;
    PyObject *meta = NULL, *rows = PyByteArray_FromStringAndSize(NULL, n * sizeof(int64_t)), *places = PyDict_New();
    if (!rows || !places) goto error;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *request = PyTuple_GET_ITEM(PyList_GET_ITEM(waiting, i), 2);
        LazyObject *x = (LazyObject *)PyTuple_GET_ITEM(request, 1);
        if (!meta) meta = x->meta;
        MetaObject *m = (MetaObject *)x->meta;
        if (PyTuple_GET_ITEM(request, 0) != s_read || x->meta != meta || m->rows != 1 || m->lead || x->slot < 0
            || x->slot >= c->next || c->row_of[x->slot] < 0) {
            Py_DECREF(rows); Py_DECREF(places);
            Py_RETURN_NONE;
        }
        ((int64_t *)PyByteArray_AS_STRING(rows))[i] = c->row_of[x->slot];
        PyObject *place = PyTuple_GET_ITEM(request, 2);
        run++;
        /* the same place has the same tuple (see site_now): one look into the dictionary for many in a row */
        if (i + 1 < n && PyTuple_GET_ITEM(PyTuple_GET_ITEM(PyList_GET_ITEM(waiting, i + 1), 2), 2) == place) continue;
        PyObject *before = PyDict_GetItemWithError(places, place);
        if (!before && PyErr_Occurred()) goto error;
        PyObject *count = PyLong_FromSsize_t(run + (before ? PyLong_AsSsize_t(before) : 0));
        if (!count || PyDict_SetItem(places, place, count)) { Py_XDECREF(count); goto error; }
        Py_DECREF(count);
        run = 0;
    }
    return Py_BuildValue("(NON)", rows, meta, places);
error:
    Py_XDECREF(rows); Py_XDECREF(places);
    return NULL;
}

static PyMethodDef core_methods[] = {
    {"asked", (PyCFunction)core_asked, METH_O, NULL}, {"shared", (PyCFunction)core_shared, METH_NOARGS, NULL},
    {"reach", (PyCFunction)core_reach, METH_O, NULL},
    {"join", (PyCFunction)(void (*)(void))core_join, METH_FASTCALL, NULL},
    {"has_tensor", (PyCFunction)core_has_tensor, METH_O, NULL},
    {"inputs", (PyCFunction)core_inputs, METH_O, NULL},
    {"take", (PyCFunction)core_take, METH_O, NULL}, {"put", (PyCFunction)core_put, METH_VARARGS, NULL},
    {"record", (PyCFunction)(void (*)(void))core_record, METH_FASTCALL, NULL},
    {"call", (PyCFunction)(void (*)(void))core_call, METH_FASTCALL, NULL},
    {"remember", (PyCFunction)(void (*)(void))core_remember, METH_FASTCALL, NULL},
    {"forget", (PyCFunction)core_forget, METH_NOARGS, NULL},
    {"resume", (PyCFunction)core_resume, METH_VARARGS, "the examples that have their answers, and these"},
    {"turn", (PyCFunction)core_turn, METH_NOARGS, "the next of them as (greenlet, answer), or None"},
    {"all_rows", (PyCFunction)core_rows, METH_O, NULL},
    {"one_row", (PyCFunction)(void (*)(void))core_row, METH_FASTCALL, NULL},
    {"parts", (PyCFunction)(void (*)(void))core_parts, METH_FASTCALL, NULL},
    {"sig", (PyCFunction)core_sig, METH_VARARGS, NULL}, {"room", (PyCFunction)core_room, METH_VARARGS, NULL},
    {"used", (PyCFunction)core_used, METH_NOARGS, NULL}, {"place", (PyCFunction)core_place, METH_VARARGS, NULL},
    {"row_of", (PyCFunction)core_row_of, METH_O, NULL}, {"plan", (PyCFunction)core_plan, METH_O, NULL}, {NULL}};
static PyMemberDef core_members[] = {
    {"lane", T_PYSSIZET, offsetof(CoreObject, lane), 0, NULL},
    {"base", T_PYSSIZET, offsetof(CoreObject, base), 0, "the lane of example 0"},
    {"pause", T_OBJECT, offsetof(CoreObject, pause), 0, "the long way to wait"},
    {"waiting", T_OBJECT, offsetof(CoreObject, waiting), 0, "list of (example, greenlet, request)"},
    {"getcurrent", T_OBJECT, offsetof(CoreObject, getcurrent), 0, NULL},
    {"current", T_OBJECT, offsetof(CoreObject, current), 0, "the greenlet of the example that runs"},
    {"hub", T_OBJECT, offsetof(CoreObject, hub), 0, "switches to the hub"},
    {"checks", T_OBJECT, offsetof(CoreObject, checks), 0, "(function, what it returns while nothing has changed, ...)"},
    {"plain", T_BOOL, offsetof(CoreObject, plain), 0, "decisions take the long way"},
    {"cast", T_BOOL, offsetof(CoreObject, cast), 0, "autocast may be on"},
    {"on_node", T_OBJECT, offsetof(CoreObject, on_node), 0, "called with nothing before each new node, if set"},
    {"entries", T_OBJECT, offsetof(CoreObject, entries), READONLY, NULL},
    {"next", T_PYSSIZET, offsetof(CoreObject, next), READONLY, NULL}, {NULL}};
static PyTypeObject CoreType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait.batching._core.Core", .tp_basicsize = sizeof(CoreObject),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = PyType_GenericNew, .tp_init = (initproc)core_init,
    .tp_dealloc = (destructor)core_dealloc, .tp_methods = core_methods, .tp_members = core_members};

static PyMethodDef module_methods[] = {
    {"use", module_use, METH_O, "use(core or None): whose lanes run in this thread"},
    {"install", module_install, METH_VARARGS, "install(names of functions, dispatch, whose code, place, handle, class of constants, are modes on?, what sets autocast, two words of a tensor): the long ways"},
    {"straight", module_straight, METH_O, "straight(on): whether calls of those functions come here first"},
    {"handle", (PyCFunction)(void (*)(void))module_handle, METH_VARARGS | METH_KEYWORDS, NULL},
    {"dispatch", (PyCFunction)(void (*)(void))module_dispatch, METH_FASTCALL, NULL}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "plait.batching._core", NULL, -1, module_methods};

PyMODINIT_FUNC PyInit__core(void) {
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    struct { PyObject **to; const char *text; } words[] = {
        {&s_add, "add"}, {&s_sub, "sub"}, {&s_mul, "mul"}, {&s_div, "div"}, {&s_matmul, "matmul"}, {&s_neg, "neg"},
        {&s_read, "read"}, {&s_compare, "_compare"}, {&s_operate, "_operate"}, {&s_truth, "_truth"}, {&s_slow, "_slow"},
        {&s_stack, "stack"}, {&s_cat, "cat"}, {&s_switch, "switch"}, {&s_unbound, "_unbound"}, {&s_item, "_item"}, {&s_list, "_tolist"},
        {&s_only, "_only"}, {&s_row, "row"}, {&s_ops[Py_LT], "lt"}, {&s_ops[Py_LE], "le"}, {&s_ops[Py_EQ], "eq"},
        {&s_ops[Py_NE], "ne"}, {&s_ops[Py_GT], "gt"}, {&s_ops[Py_GE], "ge"}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!(*words[i].to = PyUnicode_InternFromString(words[i].text))) return NULL;
    LazyType.tp_hash = PyBaseObject_Type.tp_hash;   /* values are told apart by identity */
    LazyType.tp_methods = lazy_methods;
    PyTypeObject *types[] = {&MetaType, &LazyType, &EntryType, &CoreType, &TestType, &CellType, &FastCallType};
    const char *names[] = {"MetaBase", "LazyBase", "Entry", "Core", "Test", "CellBase", "FastCall"};
    for (int i = 0; i < 7; i++) {
        if (PyType_Ready(types[i]) < 0) return NULL;
        Py_INCREF(types[i]);
        if (PyModule_AddObject(m, names[i], (PyObject *)types[i]) < 0) return NULL;
    }
    return m;
}
