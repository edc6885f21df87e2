"""Write arrays whose length is not known before all of their parts are written."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike


class GrowingArray:
    """An array in a file, `[rows, ...]`, to which rows are appended.

    It is a context manager; the file can be loaded after its end. Memory holds no row.

    Args:
        path: The path of the file, which ends in ``.npy``.
        dtype: The type of the numbers.
        row: The shape of a row.
    """

    def __init__(self, path: Path, dtype: DTypeLike, row: tuple[int, ...] = ()) -> None:
        self._dtype, self._row, self._num_rows = np.dtype(dtype), row, 0
        self._file = path.open("wb")
        self._write_header()

    def __len__(self) -> int:
        return self._num_rows

    def append(self, rows: ArrayLike) -> None:
        """Write rows behind those that were written before."""
        found = np.ascontiguousarray(rows, dtype=self._dtype).reshape(-1, *self._row)
        self._file.write(found.data if len(found) else b"")
        self._num_rows += len(found)

    def __enter__(self) -> GrowingArray:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        """Write a header, whose size is the same for any number of rows."""
        header: dict[str, Any] = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._num_rows, *self._row),
        }
        np.lib.format.write_array_header_1_0(self._file, header)
