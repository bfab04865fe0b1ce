// Paper has nothing to unfold: what is behind a fold is printed, and folded again afterwards. Where the browser does not
// run this, the style sheet opens the folds if it can.
(() => {
  'use strict';
  let opened = [];
  addEventListener('beforeprint', () => {
    opened = [...document.querySelectorAll('details:not([open])')];
    for (const fold of opened) fold.open = true;
  });
  addEventListener('afterprint', () => {
    for (const fold of opened) fold.open = false;
    opened = [];
  });
})();
