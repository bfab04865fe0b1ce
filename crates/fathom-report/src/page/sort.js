// Tables that a click on a heading sorts: by the number in data-v where a cell has one, else by its text. A second click
// turns the order round; without this script the tables stand in their own order.
(() => {
  'use strict';
  const key = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return '';
    const number = cell.dataset.v === undefined ? NaN : Number(cell.dataset.v);
    return Number.isNaN(number) ? cell.textContent.trim() : number;
  };
  const order = (a, b, falling) => {
    // What has no number comes last, whichever way the numbers go.
    if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
    const rising = typeof a === 'number' ? a - b : a.localeCompare(b, 'en', { numeric: true });
    return falling ? -rising : rising;
  };
  function sort(table, column, falling) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, place) => ({ row, place, key: key(row, column) }));
    rows.sort((a, b) => order(a.key, b.key, falling) || a.place - b.place);
    body.append(...rows.map((it) => it.row));
  }
  for (const table of document.querySelectorAll('table.sortable')) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'sort';
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener('click', () => {
        const now = head.getAttribute('aria-sort');
        // Numbers are looked at for the largest first.
        const first = head.classList.contains('n') ? 'descending' : 'ascending';
        const next = now === null ? first : now === 'ascending' ? 'descending' : 'ascending';
        heads.forEach((it) => it.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', next);
        sort(table, column, next === 'descending');
      });
    });
  }
  document.documentElement.dataset.ready = 'true';
})();
