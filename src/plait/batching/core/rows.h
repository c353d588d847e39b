/* Names for some rows of a value, several values as one, and what is among arguments. */
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
