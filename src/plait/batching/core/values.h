/* What stands for a tensor in an example, a comparison of one, and what a call gives back. */
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
    .tp_dealloc = (destructor)lazy_dealloc, .tp_weaklistoffset = offsetof(LazyObject, refs),
    .tp_members = lazy_members, .tp_richcompare = lazy_compare,
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
