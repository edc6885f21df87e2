"""Give installed programs the package `bakeoff` under its former name.

In the repository, the folder `suite` takes precedence and does the same.
"""

from bakeoff.former_name import stand_in

stand_in()
