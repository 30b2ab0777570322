"""Linear map without bias, with what usually stands around it.

    y = residual + act( norm(x) Wᵀ )

    x         [..., inputs]     activation dtype
    matrix    W [outputs, inputs], a `Matrix`: dense in the activation dtype, or in codes
    norm      the zero-centred norm of `ops.rms_norm` over `inputs`, or none
    gated     act is `ops.swiglu`: the rows of W are gate ‖ up, and y has half as many; otherwise act is nothing
    residual  the shape of y, activation dtype, or none
    y         [..., outputs]    activation dtype

Products are accumulated in float32 or better. The reference rounds after every one of its parts, the kernels after a
norm and once at the end. Many rows of fp8 weights with a scale for each row meet x in fp8 too, with a scale for each
row of x; everything else meets x in its own dtype.

`row_class` is the rule of batch invariance: with `row_class` R a row's numbers depend neither on how many others there
are (up to R) nor on where it stands. Matrix libraries choose a kernel by the number of rows, and kernels differ in the
order they add in: there the product is taken over at least R rows. The kernels add in an order that the form of the
matrix decides, and pad rows to the smallest class that keeps it, so that few rows of a large R cost what few rows cost.
Decode passes `DECODE_ROWS` times its columns; prefill, which has one request to itself, passes 0.

`pair` is two maps of the same x without residual or activation, in one launch where the kernels can: a matrix, and a
small one beside it. Its results have the bits of two calls with the same normed x.

`residual` may be the memory of nothing else; no argument is written. `select` says what to call on a device.
"""

from __future__ import annotations

from ninfer_core.ops.linear.arrangement import arrange
from ninfer_core.ops.linear.formats import dense, encode_fp8, encode_nvfp4, nvfp4_codes, nvfp4_scale
from ninfer_core.ops.linear.matrix import DenseMatrix, Fp8Matrix, Matrix, Nvfp4Matrix, output_rows
from ninfer_core.ops.linear.reference import Norm, linear
from ninfer_core.ops.linear.select import Linear, select
from ninfer_core.ops.workspace.linear import DECODE_ROWS

__all__ = [
    "DECODE_ROWS",
    "DenseMatrix",
    "Fp8Matrix",
    "Linear",
    "Matrix",
    "Norm",
    "Nvfp4Matrix",
    "arrange",
    "dense",
    "encode_fp8",
    "encode_nvfp4",
    "linear",
    "nvfp4_codes",
    "nvfp4_scale",
    "output_rows",
    "select",
]
