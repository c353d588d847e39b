/* ---------------------------------------------------------------- what the example's code does most
 * `here` is the core of the lanes that run in this thread; NULL while nothing runs, in a flush, and in a trace. Each of
 * these functions does the common case and leaves everything else to a method of the Python class. */
static _Thread_local CoreObject *here;
/* set by `install` */
static PyObject *fast_names, *slow_dispatch, *ours, *site_here, *slow_handle, *modes_on, *set_autocast;
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
    if (settled && (!c->settings || !PyTuple_CheckExact(c->settings))) settled = 0;
    for (Py_ssize_t i = 0; settled && i < PyTuple_GET_SIZE(c->settings); i++) {
        PyObject *of = PyTuple_GET_ITEM(c->settings, i);  /* (dictionary, key, what it held) */
        settled = PyDict_GetItemWithError(PyTuple_GET_ITEM(of, 0), PyTuple_GET_ITEM(of, 1)) == PyTuple_GET_ITEM(of, 2);
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
